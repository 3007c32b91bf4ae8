package filesystem

import (
	"github.com/evictd/evictd/shared/eviction"
)

// samples is one look at all of the node's filesystems.
type samples struct {
	node, image, container sample
}

// of returns the sample of the filesystem that a signal is of, nil for another
// signal, and whether the signal counts inodes.
func (s *samples) of(signal eviction.Signal) (of *sample, inodes bool) {
	b, _ := eviction.Builtin(signal)
	inodes = b.Unit == eviction.UnitInodes
	switch b.Filesystem {
	case eviction.NodeFs:
		return &s.node, inodes
	case eviction.ImageFs:
		return &s.image, inodes
	case eviction.ContainerFs:
		return &s.container, inodes
	default:
		return nil, false
	}
}

// observation is the figure of a signal. A filesystem that counts no inodes
// (btrfs), or has no size, has no figure; the kubelet takes 0 of 0 for one.
func (s *sample) observation(signal eviction.Signal, inodes bool) eviction.Observation {
	o := eviction.Observation{Signal: signal, Time: s.time, BootNanos: s.bootNanos}
	if s.err != nil {
		o.Err = s.err.Error()
		return o
	}
	o.Available, o.Capacity = s.room.AvailableBytes, s.room.CapacityBytes
	if inodes {
		o.Available, o.Capacity = s.room.InodesFree, s.room.Inodes
	}
	if o.Capacity == 0 {
		o.State, o.Available = eviction.Absent, 0
		return o
	}
	o.State = eviction.Observed
	o.Components = []eviction.Component{{Name: s.at.name, Value: o.Capacity}}
	if inodes {
		o.Components = append(o.Components, eviction.Component{Name: "used", Value: s.room.Inodes - s.room.InodesFree})
		return o
	}
	o.Components = append(o.Components,
		eviction.Component{Name: "used", Value: s.room.CapacityBytes - s.room.FreeBytes},
		eviction.Component{Name: "free", Value: s.room.FreeBytes},
		eviction.Component{Name: "reserved", Value: s.room.FreeBytes - s.room.AvailableBytes})
	return o
}

// detect says which layout was seen. While a filesystem or the runtime does not
// answer, it is the one detected last.
func (f *Filesystems) detect(all *samples) eviction.LayoutReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	report := all.report()
	complete := report.ImageFsErr == "" && report.ContainerFsErr == ""
	if f.detected && !complete {
		return f.report
	}
	f.report, f.detected = report, complete
	if report.ImageFsErr == "" {
		f.layout = report.Layout()
	}
	return report
}

// report compares devices as the kubelet does: images count as dedicated when
// either they or the writable layers are not on its own device
// (stats/provider.go:HasDedicatedImageFs, HasDedicatedContainerFs).
func (s *samples) report() eviction.LayoutReport {
	for _, of := range []*sample{&s.node, &s.image} {
		if of.err != nil {
			return eviction.LayoutReport{ImageFsErr: of.err.Error()}
		}
	}
	r := eviction.LayoutReport{ImageFs: !s.image.at.same(&s.node.at)}
	if s.container.err != nil {
		r.ContainerFsErr = s.container.err.Error()
		return r
	}
	r.ContainerFs = !s.container.at.same(&s.image.at)
	r.ImageFs = r.ImageFs || r.ContainerFs
	return r
}
