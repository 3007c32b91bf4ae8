package podusage

import (
	"bufio"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// maxMountsBytes is how much is read of a process's mounts. Its root comes early.
const maxMountsBytes = 256 << 10

// findLayers has the directories walked that take what the pod's containers write.
// The runtime's figures of them are up to ten seconds old, in which a container
// can fill a disk, so that another pod would go for it.
func (p *pod) findLayers() {
	m := p.call.meter
	for i := range p.cgroups {
		g := &p.cgroups[i]
		if g.name == "" {
			continue
		}
		dir, ok := readUpperDir(m.places.fs.Path(path.Join("/proc", strconv.Itoa(g.pids[0]), "mountinfo")))
		if !ok {
			continue
		}
		g.layer = &visit{pod: p, tree: m.trees.at(m.places.fs.Path(dir), false, p.call.began)}
		p.visits = append(p.visits, g.layer)
	}
}

// layer is what a container's writable layer takes: what the runtime says or what
// was counted, whichever is more. The runtime may be late, and a privileged
// container can have us look elsewhere.
func (p *pod) layer(c container) summary.Use {
	i := slices.IndexFunc(p.cgroups, func(g cgroup) bool { return g.layer != nil && g.isOf(c) })
	if i < 0 || !p.cgroups[i].layer.look.ok {
		p.sampled(c.at)
		return c.layer
	}
	counted := p.cgroups[i].layer.look.figure
	if counted.Bytes < c.layer.UsedBytes.Value || counted.Inodes < c.layer.InodesUsed.Value {
		p.sampled(c.at)
	} else {
		p.sampled(counted.at)
	}
	return summary.Use{
		UsedBytes:  eviction.Some(max(counted.Bytes, c.layer.UsedBytes.Value)),
		InodesUsed: eviction.Some(max(counted.Inodes, c.layer.InodesUsed.Value)),
	}
}

// readUpperDir returns the directory that takes what a process writes to its root,
// as the node sees it. It is false if the root is no overlay, or the process gone.
func readUpperDir(mounts string) (string, bool) {
	f, err := os.Open(mounts)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }() // nothing was written
	return parseUpperDir(io.LimitReader(f, maxMountsBytes))
}

// parseUpperDir finds the overlay that is mounted on "/" in lines of mountinfo
// (man 5 proc). The last one hides those before it.
func parseUpperDir(r io.Reader) (dir string, ok bool) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMountsBytes) // each lower layer adds to the line
	for lines.Scan() {
		mount, fs, found := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(mount); !found || len(fields) < 6 || fields[4] != "/" {
			continue
		}
		dir, ok = "", false
		fields := strings.Fields(fs)
		if len(fields) < 3 || fields[0] != "overlay" {
			continue
		}
		for option := range strings.SplitSeq(fields[2], ",") {
			if upper, is := strings.CutPrefix(option, "upperdir="); is {
				dir = unescape(upper)
				ok = path.IsAbs(dir)
			}
		}
	}
	return dir, ok
}

// unescape undoes the kernel's octal escapes of spaces, commas and the like.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if b, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(b))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
