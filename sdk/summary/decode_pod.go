package summary

import (
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func (d *decoder) pod(p *Pod) {
	d.impossible = ""
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "podRef":
			d.podRef(p)
		case "memory":
			d.memory(&p.Memory)
		case "ephemeral-storage":
			d.use(&p.EphemeralStorage, &p.EphemeralStorageTime, nil)
		case "process_stats":
			d.figure("process_count", &p.Processes)
		case "containers":
			d.containers = list(d, d.containers[:0], (*decoder).container)
			p.Containers = slices.Clone(d.containers)
		case "volume":
			d.volumes = list(d, d.volumes[:0], (*decoder).volume)
			p.Volumes = slices.Clone(d.volumes)
		}
	}
	p.Impossible = d.impossible
}

func (d *decoder) podRef(p *Pod) {
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "uid":
			d.str(&p.UID)
		case "namespace":
			d.str(&p.Namespace)
		case "name":
			d.str(&p.Name)
		}
	}
}

// figure reads the figure with a name in an object.
func (d *decoder) figure(name string, f *eviction.Figure) {
	*f = eviction.Figure{}
	for more := d.object() && d.member(); more; more = d.member() {
		if string(d.key) == name {
			d.unsigned(f)
		}
	}
}

func (d *decoder) container(c *Container) {
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "name":
			d.str(&c.Name)
		case "memory":
			d.figure("workingSetBytes", &c.WorkingSetBytes)
		case "rootfs":
			d.use(&c.Rootfs, nil, nil)
		case "logs":
			d.use(&c.Logs, nil, nil)
		}
	}
}

func (d *decoder) volume(v *Volume) { d.use(&v.Use, nil, &v.Name) }

// use reads the usage of a filesystem, and its time or name unless that is nil. What cannot be a part of
// the filesystem is missing. With a time it is the sum for a pod, which may be on several filesystems.
func (d *decoder) use(u *Use, at *time.Time, name *string) {
	*u = Use{}
	var capacity, inodes eviction.Figure
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "name":
			if name != nil {
				d.str(name)
			}
		case "time":
			if at != nil {
				d.time(at)
			}
		case "capacityBytes":
			d.unsigned(&capacity)
		case "inodes":
			d.unsigned(&inodes)
		case "usedBytes":
			d.unsigned(&u.UsedBytes)
		case "inodesUsed":
			d.unsigned(&u.InodesUsed)
		}
	}
	if at != nil {
		return
	}
	bytes, files := eviction.Whole{Name: "the capacity of its filesystem", Size: capacity.Value}, eviction.Whole{Name: "the inodes of its filesystem", Size: inodes.Value}
	if err := bytes.Check(u.UsedBytes.Value); err != nil {
		u.UsedBytes, d.impossible = eviction.Figure{}, err.Error()
	}
	if err := files.Check(u.InodesUsed.Value); err != nil {
		u.InodesUsed, d.impossible = eviction.Figure{}, err.Error()
	}
}
