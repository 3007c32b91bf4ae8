package podusage

import (
	"bufio"
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/disk/internal/walk"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// mostDescriptors is how many open files of one pod are looked at.
const mostDescriptors = 20_000

// held finds what pods' processes hold open although it is deleted. The disk has
// less room for it, and no walk sees it.
type held struct {
	places    places
	names     nodefs.CgroupNames
	hierarchy nodefs.Hierarchy
	// ok: the node's cgroups are where they are looked for.
	ok bool
}

// heldUsage is what a pod holds.
type heldUsage struct {
	// node is on the kubelet's filesystem: of a volume or a log.
	node walk.Usage
}

func newHeld(node eviction.NodeFacts) held {
	h := held{places: newPlaces(node)}
	var err error
	if h.names, err = nodefs.NewCgroupNames(node.CgroupRoot, node.CgroupDriver); err != nil {
		return h
	}
	if h.hierarchy, err = h.places.fs.MemoryHierarchy(); err != nil {
		return h
	}
	h.ok = true
	return h
}

// addHeld adds what the pod holds of deleted files: in a writable layer to that
// container, elsewhere to the pod as a whole, since a file without a name belongs
// to no volume that could be told. It adds what it can read: a process that ends
// meanwhile holds nothing.
func (p *pod) addHeld(ctx context.Context) {
	h, c := p.call.meter.held, p.call
	if !h.ok || ctx.Err() != nil || !c.looks.Volumes && !c.looks.Rootfs {
		return
	}
	podCgroup, err := h.names.Pod(p.row.UID, string(p.row.QoSClass))
	if err != nil {
		return
	}
	node, err := h.nodeDevice()
	if err != nil {
		return
	}
	proc := h.places.fs.Path("/proc")
	var all []int
	for cgroup, pids := range processes(h.hierarchy.Path(podCgroup)) {
		all = append(all, pids...)
		i := slices.IndexFunc(c.known.running[p.row.UID], func(r container) bool { return r.id != "" && strings.Contains(cgroup, r.id) })
		if i < 0 || !c.looks.Rootfs || i >= len(p.stats.Containers) {
			continue
		}
		layer, err := device(filepath.Join(proc, strconv.Itoa(pids[0]), "root"))
		if err != nil || layer == node {
			continue // gone, or not told apart from volumes
		}
		used, _ := walk.Deleted(ctx, proc, pids, layer, mostDescriptors)
		p.stats.Containers[i].Rootfs = plus(p.stats.Containers[i].Rootfs, used)
	}
	if c.looks.Volumes && p.ownsNodeFiles() {
		p.held.node, _ = walk.Deleted(ctx, proc, all, node, mostDescriptors)
	}
}

// ownsNodeFiles reports whether deleted files on the kubelet's filesystem can only
// be the pod's own and are in no other figure. With a hostPath they may be
// anybody's: who follows the logs of other pods holds those that are rotated. A
// quota has counted them.
func (p *pod) ownsNodeFiles() bool {
	return !slices.ContainsFunc(p.row.Volumes, func(v eviction.Volume) bool { return v.Kind == "hostPath" }) &&
		!slices.ContainsFunc(p.volumes, func(v volume) bool { return v.quota })
}

func (h held) nodeDevice() (uint64, error) { return device(h.places.fs.Path(h.places.kubelet)) }

func device(name string) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		return 0, err
	}
	return stat.Dev, nil
}

// processes returns the processes of a cgroup and those below it, by the name of
// the one directly below it, "." for its own.
func processes(dir string) map[string][]int {
	out := make(map[string][]int)
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cgroup.procs" {
			return nil //nolint:nilerr // a cgroup that is gone has no processes
		}
		inside, _ := filepath.Rel(dir, path.Dir(name))
		cgroup, _, _ := strings.Cut(inside, "/")
		if pids := readPIDs(name); len(pids) > 0 {
			out[cgroup] = append(out[cgroup], pids...)
		}
		return nil
	})
	return out
}

func readPIDs(name string) []int {
	file, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer file.Close()
	var pids []int
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if pid, err := strconv.Atoi(lines.Text()); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func plus(u summary.Use, more walk.Usage) summary.Use {
	if more.Inodes == 0 {
		return u
	}
	u.UsedBytes = eviction.Some(u.UsedBytes.Value + more.Bytes)
	u.InodesUsed = eviction.Some(u.InodesUsed.Value + more.Inodes)
	return u
}
