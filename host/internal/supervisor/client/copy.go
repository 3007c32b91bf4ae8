package client

import (
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// A plugin of this process that sorts its input in place, or uses its output
// again, must not do it to the host. These copies leave nothing shared that can
// be written to.

// copyPods copies rows, with those labels and annotations that the plugin wants.
func (d *direct) copyPods(pods []eviction.Pod) []eviction.Pod {
	out := slices.Clone(pods)
	for i := range out {
		d.detach(&out[i])
	}
	return out
}

func (d *direct) copyCandidates(candidates []eviction.Candidate) []eviction.Candidate {
	out := slices.Clone(candidates)
	for i := range out {
		d.detach(&out[i].Pod)
		out[i].Measurement = copyMeasurement(out[i].Measurement)
	}
	return out
}

func (d *direct) detach(p *eviction.Pod) {
	p.Labels = pick(p.Labels, d.plugin.WantLabels)
	p.Annotations = pick(p.Annotations, d.plugin.WantAnnotations)
	p.Volumes = slices.Clone(p.Volumes)
	p.Containers = slices.Clone(p.Containers)
}

// pick returns the wanted entries of m, nil if there are none.
func pick(m map[string]string, wanted []string) map[string]string {
	var out map[string]string
	for _, key := range wanted {
		if value, ok := m[key]; ok {
			if out == nil {
				out = make(map[string]string, len(wanted))
			}
			out[key] = value
		}
	}
	return out
}

func copyMeasurement(m eviction.Measurement) eviction.Measurement {
	m.Usage = slices.Clone(m.Usage)
	m.Containers = slices.Clone(m.Containers)
	m.Volumes = slices.Clone(m.Volumes)
	return m
}

func copyReply(r eviction.ObserveReply) eviction.ObserveReply {
	r.Observations = slices.Clone(r.Observations)
	for i := range r.Observations {
		r.Observations[i].Components = slices.Clone(r.Observations[i].Components)
	}
	if r.Layout != nil {
		layout := *r.Layout
		r.Layout = &layout
	}
	return r
}
