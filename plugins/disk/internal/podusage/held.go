package podusage

import (
	"context"
	"iter"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/disk/internal/walk"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// mostDescriptors is how many open files of one pod are looked at.
const mostDescriptors = 20_000

// heldUsage is what a pod's processes hold open although it is deleted. The disk
// has less room for it, and no walk sees it.
type heldUsage struct {
	// node is on the kubelet's filesystem: of a volume or a log.
	node walk.Usage
}

// addHeld adds what the pod holds of deleted files: in a writable layer to that
// container, elsewhere to the pod as a whole, since a file without a name belongs
// to no volume that could be told. It adds what it can read: a process that ends
// meanwhile holds nothing.
func (p *pod) addHeld(ctx context.Context) {
	c := p.call
	if ctx.Err() != nil || len(p.cgroups) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience/2) // a pod may hold a great many
	defer cancel()
	places := c.meter.places
	proc := places.fs.Path("/proc")
	node, err := device(places.fs.Path(places.kubelet))
	if err != nil {
		return
	}
	var all []int
	for _, g := range p.cgroups {
		all = append(all, g.pids...)
		i := slices.IndexFunc(c.known.running[p.row.UID], g.isOf)
		if i < 0 || !c.looks.Rootfs {
			continue
		}
		if g.root == 0 || g.root == node {
			continue // gone, or not told apart from volumes
		}
		used, _ := walk.Deleted(ctx, proc, p.still(g.pids), g.root, mostDescriptors)
		p.stats.Containers[i].Rootfs = plus(p.stats.Containers[i].Rootfs, used)
	}
	if c.looks.Volumes && p.ownsNodeFiles() {
		p.held.node, _ = walk.Deleted(ctx, proc, p.still(all), node, mostDescriptors)
	}
}

// still has those of the processes that are the pod's at the moment at which they
// are asked for. Some seconds have passed since they were listed, in which a number
// can have become that of somebody else's process.
func (p *pod) still(pids []int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, pid := range pids {
			if p.has(pid) && !yield(pid) {
				return
			}
		}
	}
}

// has reports whether a process is the pod's just now.
func (p *pod) has(pid int) bool {
	cgroup, err := os.ReadFile(p.call.meter.places.fs.Path(path.Join("/proc", strconv.Itoa(pid), "cgroup")))
	return err == nil && isBelow(string(cgroup), p.cgroup)
}

// isBelow reports whether a file /proc/PID/cgroup names a pod's cgroup or one below
// it. It is known by its name, which has the pod's uid: whole paths begin elsewhere
// where we have a cgroup namespace of our own.
func isBelow(file, podCgroup string) bool {
	for line := range strings.Lines(file) {
		_, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		_, name, _ = strings.Cut(name, ":")
		if slices.Contains(strings.Split(name, "/"), path.Base(podCgroup)) {
			return true
		}
	}
	return false
}

// ownsNodeFiles reports whether deleted files on the kubelet's filesystem can only
// be the pod's own and are in no other figure. With a hostPath they may be
// anybody's: who follows the logs of other pods holds those that are rotated. A
// quota has counted them.
func (p *pod) ownsNodeFiles() bool {
	return !slices.ContainsFunc(p.row.Volumes, func(v eviction.Volume) bool { return v.Kind == "hostPath" }) &&
		!slices.ContainsFunc(p.volumes, func(v volume) bool { return v.quota })
}

func device(name string) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		return 0, err
	}
	return stat.Dev, nil
}

func plus(u summary.Use, more walk.Usage) summary.Use {
	if more.Inodes == 0 {
		return u
	}
	u.UsedBytes = eviction.Some(summary.Add(u.UsedBytes.Value, more.Bytes))
	u.InodesUsed = eviction.Some(summary.Add(u.InodesUsed.Value, more.Inodes))
	return u
}
