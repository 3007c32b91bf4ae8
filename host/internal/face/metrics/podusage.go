package metrics

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evictd/evictd/shared/eviction"
)

// A PodUsage collects what the pods that use most of each signal use of it. It is safe for concurrent use.
type PodUsage struct {
	desc    *prometheus.Desc
	signals *names
	now     func() time.Time

	mu sync.Mutex
	// top is the number of pods of each signal.
	top     int
	figures map[usageSource]podFigures
}

// A usageSource is a ranking by a signal, or the check of limits.
type usageSource struct {
	signal string
	limits bool
}

// podFigures are the pods that use most, which count until then.
type podFigures struct {
	pods  []podFigure
	until time.Time
}

type podFigure struct {
	namespace, name string
	used            int64
}

func newPodUsage(signals *names) *PodUsage {
	return &PodUsage{
		desc: prometheus.NewDesc("evictd_pod_usage",
			"What a pod used of the signal when pods were last ranked by it or checked against their limits, in its base unit. Of each signal the pods that use most (podMetrics).",
			[]string{"signal", "namespace", "pod"}, nil),
		signals: signals, now: time.Now, figures: map[usageSource]podFigures{},
	}
}

// Show sets the number of pods of each signal whose use is shown. With 0 none is.
func (u *PodUsage) Show(top int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.top = top
	clear(u.figures)
}

// Record takes what pods use of s, in its base unit, which counts until then. limits: it was measured
// for their limits, and counts where pods have not been ranked by s.
func (u *PodUsage) Record(s eviction.Signal, limits bool, used iter.Seq2[*eviction.Pod, int64], until time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	name := u.signals.of(string(s))
	if u.top == 0 || name == other {
		return
	}
	u.figures[usageSource{name, limits}] = podFigures{most(used, u.top), until}
}

// forget removes the figures of a signal.
func (u *PodUsage) forget(signal string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.figures, usageSource{signal, false})
	delete(u.figures, usageSource{signal, true})
}

// most returns the pods that use most. Of pods of the same name, as while one replaces another, it takes the
// larger.
func most(used iter.Seq2[*eviction.Pod, int64], top int) (out []podFigure) {
	larger := func(a, b podFigure) int {
		return cmp.Or(cmp.Compare(b.used, a.used), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	}
	for pod, bytes := range used {
		if len(out) == top && bytes < out[top-1].used {
			continue
		}
		next := podFigure{strings.ToValidUTF8(pod.Namespace, "?"), strings.ToValidUTF8(pod.Name, "?"), bytes}
		if same := slices.IndexFunc(out, func(p podFigure) bool { return p.name == next.name && p.namespace == next.namespace }); same >= 0 {
			next.used = max(next.used, out[same].used)
			out = slices.Delete(out, same, same+1)
		}
		at, _ := slices.BinarySearchFunc(out, next, larger)
		if out = slices.Insert(out, at, next); len(out) > top {
			out = out[:top]
		}
	}
	return out
}

// Describe implements prometheus.Collector.
func (u *PodUsage) Describe(to chan<- *prometheus.Desc) { to <- u.desc }

// Collect implements prometheus.Collector.
func (u *PodUsage) Collect(to chan<- prometheus.Metric) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for source, figures := range u.figures {
		ranked := u.figures[usageSource{source.signal, false}]
		if now := u.now(); now.After(figures.until) || source.limits && !now.After(ranked.until) {
			continue
		}
		for _, p := range figures.pods {
			to <- prometheus.MustNewConstMetric(u.desc, prometheus.GaugeValue, float64(p.used), source.signal, p.namespace, p.name)
		}
	}
}
