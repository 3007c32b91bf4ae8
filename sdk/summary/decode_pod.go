package summary

import (
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func (d *decoder) pods() []Pod {
	if !d.array() {
		return nil
	}
	var pods []Pod
	for d.element() && d.entry() {
		pods = append(pods, Pod{})
		d.pod(&pods[len(pods)-1])
	}
	return pods
}

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
			d.processes(&p.Processes)
		case "containers":
			p.Containers = d.podContainers()
		case "volume":
			p.Volumes = d.podVolumes()
		default:
			d.skip()
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
		default:
			d.skip()
		}
	}
}

func (d *decoder) processes(count *eviction.Figure) {
	*count = eviction.Figure{}
	for more := d.object() && d.member(); more; more = d.member() {
		if string(d.key) == "process_count" {
			d.unsigned(count)
		} else {
			d.skip()
		}
	}
}

func (d *decoder) podContainers() []Container {
	d.containers = d.containers[:0]
	for more := d.array() && d.element(); more && d.entry(); more = d.element() {
		d.containers = append(d.containers, Container{})
		d.container(&d.containers[len(d.containers)-1])
	}
	return slices.Clone(d.containers)
}

func (d *decoder) container(c *Container) {
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "name":
			d.str(&c.Name)
		case "memory":
			d.workingSet(&c.WorkingSetBytes)
		case "rootfs":
			d.use(&c.Rootfs, nil)
		case "logs":
			d.use(&c.Logs, nil)
		default:
			d.skip()
		}
	}
}

func (d *decoder) workingSet(bytes *eviction.Figure) {
	*bytes = eviction.Figure{}
	for more := d.object() && d.member(); more; more = d.member() {
		if string(d.key) == "workingSetBytes" {
			d.unsigned(bytes)
		} else {
			d.skip()
		}
	}
}

func (d *decoder) podVolumes() []Volume {
	d.volumes = d.volumes[:0]
	for more := d.array() && d.element(); more && d.entry(); more = d.element() {
		d.volumes = append(d.volumes, Volume{})
		d.volume(&d.volumes[len(d.volumes)-1])
	}
	return slices.Clone(d.volumes)
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
		default:
			d.skip()
		}
	}
}

// use reads the usage of a filesystem, and the time of the sample if at is not nil.
func (d *decoder) use(u *Use, at *time.Time) {
	*u = Use{}
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "time":
			if at == nil {
				d.skip()
				continue
			}
			d.time(at)
		case "usedBytes":
			d.unsigned(&u.UsedBytes)
		case "inodesUsed":
			d.unsigned(&u.InodesUsed)
		default:
			d.skip()
		}
	}
}
