package podusage

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
)

// findLayers finds the containers' root filesystems and adds tasks to walk their upper
// directories. The runtime's figures are up to ten seconds old; in that time a container can
// fill a disk, and another pod would be evicted for it.
//
// It trusts only the device in a process's mounts, since the pod can mount anything there. The
// directory comes from the node's own mounts, if it is not that of another container.
func (p *pod) findLayers() {
	m := p.call.meter
	for i := range p.cgroups {
		g := &p.cgroups[i]
		if g.name == "" {
			continue
		}
		g.root = readRootDevice(m.places.fs.Path(path.Join("/proc", strconv.Itoa(g.pids[0]), "mountinfo")))
		of, ok := p.call.mounts.layer(g.root)
		if parent := p.startedBy(g.pids); !ok && parent > 0 {
			p.call.mounts.add(strconv.Itoa(parent))
			of, ok = p.call.mounts.layer(g.root)
		}
		if !ok {
			continue
		}
		if of.upper == "" || !strings.Contains(g.name, of.container) { // its process has entered it
			g.root = 0
			continue
		}
		g.layer = &task{tree: m.trees.at(of.upper, false, p.call.began)}
		p.tasks = append(p.tasks, g.layer)
	}
}

// oneOwner drops the layers that several containers have as their root: all but one have entered it.
func oneOwner(pods []*pod) {
	owners := map[*tree]int{}
	each := func(do func(p *pod, g *cgroup)) {
		for _, p := range pods {
			for i := range p.cgroups {
				if g := &p.cgroups[i]; g.layer != nil {
					do(p, g)
				}
			}
		}
	}
	each(func(_ *pod, g *cgroup) { owners[g.layer.tree]++ })
	each(func(p *pod, g *cgroup) {
		if owners[g.layer.tree] > 1 {
			p.tasks = slices.DeleteFunc(p.tasks, func(t *task) bool { return t == g.layer })
			g.layer = nil
		}
	})
}

// layer returns the usage of a container's writable layer: the runtime's figure or the counted
// one, whichever is larger. The runtime's may be old, and the counted one wrong: the oldest
// process in the container's cgroup may belong to a nested container.
func (p *pod) layer(c container) use {
	i := slices.IndexFunc(p.cgroups, func(g cgroup) bool { return g.layer != nil && g.isOf(c) })
	if i < 0 || !p.cgroups[i].layer.look.ok {
		p.sampled(c.at)
		p.hidden.Rootfs = p.hidden.Rootfs || c.refused
		p.reject(c)
		return c.layer
	}
	counted := p.cgroups[i].layer.look.figure
	if p.cgroups[i].layer.look.partial && !c.layer.bytes.OK {
		p.hidden.Rootfs, p.unfinished = true, true
	}
	if counted.Bytes < c.layer.bytes.Value || counted.Inodes < c.layer.inodes.Value {
		p.sampled(c.at)
	} else {
		p.sampled(counted.at)
	}
	return use{eviction.Some(max(counted.Bytes, c.layer.bytes.Value)), eviction.Some(max(counted.Inodes, c.layer.inodes.Value))}
}

// reject makes a pod unknown whose layer has a figure that cannot be: it is more than the filesystem has. For limits the rest
// counts.
func (p *pod) reject(c container) {
	if p.call.detailed {
		return
	}
	p.errs = append(p.errs, c.impossible)
	for i := range p.call.signals {
		s := &p.call.signals[i]
		figure := c.layer.bytes.Value
		if s.Unit == eviction.UnitInodes {
			figure = c.layer.inodes.Value
		}
		if whole := (eviction.Whole{Name: "the filesystem of " + string(s.Signal), Size: s.Capacity}); s.Capacity > 0 && (part{kind: rootfs, device: c.store.device}).on(s) {
			if err := whole.Check(figure); err != nil {
				p.errs = append(p.errs, fmt.Errorf("layer of container %s: %w", c.name, err))
			}
		}
	}
}

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
		if used.Inodes > 0 {
			of := &p.containers[i]
			all := sum(use{of.RootfsUsedBytes, of.RootfsInodesUsed}.usage(), used)
			of.RootfsUsedBytes, of.RootfsInodesUsed = eviction.Some(all.Bytes), eviction.Some(all.Inodes)
		}
		p.add(rootfs, c.known.running[p.row.UID][i].store.device, used)
	}
	if c.looks.Volumes && p.ownsNodeFiles() {
		p.deleted, _ = walk.Deleted(ctx, proc, p.still(all), node, mostDescriptors)
		p.add(volumes, 0, p.deleted)
	}
}

// ownsNodeFiles reports whether deleted files on the kubelet's filesystem can only be the pod's own
// and are in no other figure. With a hostPath they may be another pod's: a pod that follows logs of
// others holds their rotated files open. A quota has counted deleted files already.
func (p *pod) ownsNodeFiles() bool {
	return !slices.ContainsFunc(p.row.Volumes, func(v eviction.Volume) bool { return v.Kind == "hostPath" }) &&
		!slices.ContainsFunc(p.volumes, func(v volume) bool { return v.quota })
}
