package summary

import (
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

func (d *decoder) pod(p *Pod) {
	d.fields(
		field{"podRef", func() {
			d.fields(field{"uid", &p.UID}, field{"namespace", &p.Namespace}, field{"name", &p.Name})
		}},
		field{"memory", func() { d.memory(&p.Memory) }},
		field{"ephemeral-storage", func() { d.use(&p.EphemeralStorage, &p.EphemeralStorageTime) }},
		field{"process_stats", func() { d.figure("process_count", &p.Processes) }},
		field{"containers", func() {
			d.containers = list(d, d.containers[:0], (*decoder).container)
			p.Containers = slices.Clone(d.containers)
		}},
		field{"volume", func() {
			d.volumes = list(d, d.volumes[:0], (*decoder).volume)
			p.Volumes = slices.Clone(d.volumes)
		}},
	)
}

// figure reads the figure with a name in an object.
func (d *decoder) figure(name string, f *eviction.Figure) {
	*f = eviction.Figure{}
	d.fields(field{name, f})
}

func (d *decoder) container(c *Container) {
	d.fields(
		field{"name", &c.Name},
		field{"memory", func() { d.figure("workingSetBytes", &c.WorkingSetBytes) }},
		field{"rootfs", func() { d.use(&c.Rootfs, nil) }},
		field{"logs", func() { d.use(&c.Logs, nil) }},
	)
}

func (d *decoder) volume(v *Volume) {
	d.fields(field{"name", &v.Name}, field{"usedBytes", &v.UsedBytes}, field{"inodesUsed", &v.InodesUsed})
}

// use reads the usage of a filesystem, and the time of the sample if at is not nil.
func (d *decoder) use(u *Use, at any) {
	*u = Use{}
	d.fields(field{"time", at}, field{"usedBytes", &u.UsedBytes}, field{"inodesUsed", &u.InodesUsed})
}
