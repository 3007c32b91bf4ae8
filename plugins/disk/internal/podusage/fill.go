package podusage

import (
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// fill writes the pod's figures into m.
func (p *pod) fill(m *eviction.Measurement) {
	c := p.call
	m.Time = p.oldest
	for _, s := range c.signals {
		used := p.stats.Usage(s, c.layout, p.row.Volumes)
		if summary.PartsOf(s, c.layout).Volumes {
			used = summary.Add(used, of(s, p.held.node.Bytes, p.held.node.Inodes))
		}
		m.Usage = append(m.Usage, eviction.SignalUsage{Signal: s, Value: used})
	}
	if c.looks == everything && c.known.err == nil {
		m.EphemeralStorageUsedBytes = p.ephemeral()
	}
	if !c.detailed {
		return
	}
	m.Containers = make([]eviction.ContainerMeasurement, len(p.stats.Containers))
	for i := range p.stats.Containers {
		from := &p.stats.Containers[i]
		m.Containers[i] = eviction.ContainerMeasurement{
			Name:             from.Name,
			RootfsUsedBytes:  from.Rootfs.UsedBytes,
			RootfsInodesUsed: from.Rootfs.InodesUsed,
			LogsUsedBytes:    from.Logs.UsedBytes,
			LogsInodesUsed:   from.Logs.InodesUsed,
		}
	}
	m.Volumes = make([]eviction.VolumeMeasurement, len(p.stats.Volumes))
	for i := range p.stats.Volumes {
		from := &p.stats.Volumes[i]
		m.Volumes[i] = eviction.VolumeMeasurement{Name: from.Name, UsedBytes: from.UsedBytes, InodesUsed: from.InodesUsed}
	}
}

// of returns the one of two amounts that a signal counts.
func of(s eviction.Signal, bytes, inodes int64) int64 {
	if d, _ := eviction.Builtin(s); d.Unit == eviction.UnitInodes {
		return inodes
	}
	return bytes
}

// ephemeral is what the kubelet holds against the pod's limit on ephemeral storage
// (stats/helper.go: calcEphemeralStorage): writable layers and logs of containers,
// volumes that live as long as the pod and on the node's disk, files beside the
// containers' logs, and the file of hosts. Deleted files are ours.
func (p *pod) ephemeral() eviction.Figure {
	total := summary.Add(p.others.Bytes, p.held.node.Bytes)
	for i := range p.stats.Containers {
		c := &p.stats.Containers[i]
		total = summary.Add(total, summary.Add(c.Rootfs.UsedBytes.Value, c.Logs.UsedBytes.Value))
	}
	for i := range p.volumes {
		if v := &p.volumes[i]; v.look.ok && ephemeral(v.row) {
			total = summary.Add(total, v.look.figure.Bytes)
		}
	}
	return eviction.Some(total)
}
