package podusage

import (
	"path"
	"slices"
	"strconv"

	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// findLayers finds the containers' root filesystems and adds tasks to walk their upper
// directories. The runtime's figures are up to ten seconds old; in that time a container can
// fill a disk, and another pod would be evicted for it.
//
// It trusts only the device in a process's mounts, since the pod can mount anything there. The
// directory comes from the node's own mounts.
func (p *pod) findLayers() {
	m := p.call.meter
	for i := range p.cgroups {
		g := &p.cgroups[i]
		if g.name == "" {
			continue
		}
		g.root = readRootDevice(m.places.fs.Path(path.Join("/proc", strconv.Itoa(g.pids[0]), "mountinfo")))
		dir, ok := p.call.mounts.upperDir(g.root)
		if parent := p.startedBy(g.pids); !ok && parent > 0 {
			p.call.mounts.add(strconv.Itoa(parent))
			dir, ok = p.call.mounts.upperDir(g.root)
		}
		if !ok {
			continue
		}
		g.layer = &task{tree: m.trees.at(m.places.fs.Path(dir), false, p.call.began)}
		p.tasks = append(p.tasks, g.layer)
	}
}

// layer returns the usage of a container's writable layer: the runtime's figure or the counted
// one, whichever is larger. The runtime's may be old, and the counted one wrong: the oldest
// process in the container's cgroup may belong to a nested container.
func (p *pod) layer(c container) summary.Use {
	i := slices.IndexFunc(p.cgroups, func(g cgroup) bool { return g.layer != nil && g.isOf(c) })
	if i < 0 || !p.cgroups[i].layer.look.ok {
		p.sampled(c.at)
		p.hidden.Rootfs = p.hidden.Rootfs || c.refused
		return c.layer
	}
	counted := p.cgroups[i].layer.look.figure
	p.hidden.Rootfs = p.hidden.Rootfs || p.cgroups[i].layer.look.partial && !c.layer.UsedBytes.OK
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
