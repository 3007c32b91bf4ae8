package podusage

import (
	"context"
	"slices"

	"github.com/evictd/evictd/plugins/disk/internal/walk"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// mostDescriptors is the maximum number of one pod's open files that are read.
const mostDescriptors = 20_000

// addDeleted adds the deleted files that the pod holds open: those in a writable layer to its
// container, others to the pod as a whole, since a deleted file cannot be attributed to a volume.
// It ignores what it cannot read: a process that has ended holds nothing.
func (p *pod) addDeleted(ctx context.Context) {
	c := p.call
	if ctx.Err() != nil || len(p.cgroups) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hangsAfter/2) // a pod may hold very many
	defer cancel()
	places := c.meter.places
	proc := places.fs.Path("/proc")
	node, err := places.fs.Device(places.kubelet)
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
			continue // gone, or not distinguishable from volumes
		}
		used, _ := walk.Deleted(ctx, proc, p.still(g.pids), g.root, mostDescriptors)
		p.stats.Containers[i].Rootfs = plus(p.stats.Containers[i].Rootfs, used)
	}
	if c.looks.Volumes && p.ownsNodeFiles() {
		p.deleted, _ = walk.Deleted(ctx, proc, p.still(all), node, mostDescriptors)
	}
}

// ownsNodeFiles reports whether deleted files on the kubelet's filesystem can only be the pod's own
// and are in no other figure. With a hostPath they may be another pod's: a pod that follows logs of
// others holds their rotated files open. A quota has counted deleted files already.
func (p *pod) ownsNodeFiles() bool {
	return !slices.ContainsFunc(p.row.Volumes, func(v eviction.Volume) bool { return v.Kind == "hostPath" }) &&
		!slices.ContainsFunc(p.volumes, func(v volume) bool { return v.quota })
}

func plus(u summary.Use, more walk.Usage) summary.Use {
	if more.Inodes == 0 {
		return u
	}
	u.UsedBytes = eviction.Some(summary.Add(u.UsedBytes.Value, more.Bytes))
	u.InodesUsed = eviction.Some(summary.Add(u.InodesUsed.Value, more.Inodes))
	return u
}
