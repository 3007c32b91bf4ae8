package filesystem

import (
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
)

// samples is one look at all of the node's filesystems.
type samples struct {
	node, image, container *sample
}

// of returns the sample of the filesystem that a signal is of, nil for another signal.
func (s *samples) of(signal eviction.Signal) *sample {
	switch b, _ := eviction.Builtin(signal); b.Filesystem {
	case eviction.NodeFs:
		return s.node
	case eviction.ImageFs:
		return s.image
	case eviction.ContainerFs:
		return s.container
	default:
		return nil
	}
}

// observation is the figure of a signal, with room for its components.
func (s *sample) observation(signal eviction.Signal, room []eviction.Component) eviction.Observation {
	return figures.Filesystem(eviction.Observation{Signal: signal, Time: s.time, BootNanos: s.bootNanos, Components: room}, s.at.name, s.room, s.err)
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
	for _, of := range []*sample{s.node, s.image} {
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
