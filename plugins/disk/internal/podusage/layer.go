package podusage

import (
	"path"
	"slices"
	"strconv"

	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// findLayers finds the containers' root filesystems, and has the directories walked
// that take what is written there. The runtime's figures of them are up to ten
// seconds old, in which a container can fill a disk, so that another pod would go
// for it.
//
// Of a process's mounts only the device is believed: the pod can mount what it
// likes there. The directory is the node's word.
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

// layer returns the usage of a container's writable layer: by the runtime or as it was counted,
// whichever is more. The runtime may be late, and the oldest process in a container's cgroup
// may be one of a container inside.
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
