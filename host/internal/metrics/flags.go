package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxFolded bounds what is remembered of names that have no series of their own.
const maxFolded = 1024

// flags is a gauge of yes and no by name. The names beyond the first few are one
// series, which must not hide what is wrong with one of them: it is alarm as long
// as one of them is.
type flags struct {
	vec   *prometheus.GaugeVec
	names *names
	alarm bool

	mu     sync.Mutex
	folded map[string]bool
}

func newFlags(vec *prometheus.GaugeVec, names *names, alarm bool) *flags {
	return &flags{vec: vec, names: names, alarm: alarm, folded: map[string]bool{}}
}

func (f *flags) set(name string, yes bool) {
	if label := f.names.of(name); label != other {
		f.vec.WithLabelValues(label).Set(flag(yes))
		return
	}
	f.fold(func(folded map[string]bool) {
		if _, known := folded[name]; known || len(folded) < maxFolded {
			folded[name] = yes
		}
	})
}

func (f *flags) forget(name string) {
	if label := f.names.of(name); label != other {
		f.vec.DeleteLabelValues(label)
		return
	}
	f.fold(func(folded map[string]bool) { delete(folded, name) })
}

// fold changes what is known of the rest, and sets its series.
func (f *flags) fold(change func(map[string]bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.folded)
	if len(f.folded) == 0 {
		f.vec.DeleteLabelValues(other)
		return
	}
	is := !f.alarm
	for _, yes := range f.folded {
		if yes == f.alarm {
			is = f.alarm
		}
	}
	f.vec.WithLabelValues(other).Set(flag(is))
}
