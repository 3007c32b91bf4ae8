package summary

import (
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func (d *decoder) pod(p *Pod) {
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

func (d *decoder) volume(v *Volume) {
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "name":
			d.str(&v.Name)
		case "usedBytes":
			d.unsigned(&v.UsedBytes)
		case "inodesUsed":
			d.unsigned(&v.InodesUsed)
		}
	}
}

// use reads the usage of a filesystem, and the time of the sample if at is not nil.
func (d *decoder) use(u *Use, at *time.Time) {
	*u = Use{}
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "time":
			if at != nil {
				d.time(at)
			}
		case "usedBytes":
			d.unsigned(&u.UsedBytes)
		case "inodesUsed":
			d.unsigned(&u.InodesUsed)
		}
	}
}
