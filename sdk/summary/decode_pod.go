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
			d.use(&p.EphemeralStorage, &p.EphemeralStorageTime)
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
			d.use(&c.Rootfs, nil)
		case "logs":
			d.use(&c.Logs, nil)
		}
	}
}

func (d *decoder) volume(v *Volume) { d.filled(&v.Use, nil, &v.Name) }

// use reads the usage of a filesystem, and the time of the sample if at is not nil.
func (d *decoder) use(u *Use, at *time.Time) {
	*u = Use{}
	d.filled(u, at, nil)
}

// filled reads a usage, and its time or name unless that is nil. What cannot be a part of the filesystem
// is missing. With a time it is the sum for a pod, which may have parts on several filesystems.
func (d *decoder) filled(u *Use, at *time.Time, name *string) {
	var capacity, inodes eviction.Figure
	for more := d.object() && d.member(); more; more = d.member() {
		switch key := string(d.key); {
		case key == "name" && name != nil:
			d.str(name)
		case key == "time" && at != nil:
			d.time(at)
		case key == "capacityBytes":
			d.unsigned(&capacity)
		case key == "inodes":
			d.unsigned(&inodes)
		case key == "usedBytes":
			d.unsigned(&u.UsedBytes)
		case key == "inodesUsed":
			d.unsigned(&u.InodesUsed)
		}
	}
	if at == nil {
		d.part(&u.UsedBytes, eviction.Whole{Name: "the capacity of its filesystem", Size: capacity.Value})
		d.part(&u.InodesUsed, eviction.Whole{Name: "the inodes of its filesystem", Size: inodes.Value})
	}
}

// part removes a figure that cannot be a part of whole, and notes why.
func (d *decoder) part(f *eviction.Figure, whole eviction.Whole) {
	if err := whole.Check(f.Value); err != nil {
		*f, d.impossible = eviction.Figure{}, err.Error()
	}
}
