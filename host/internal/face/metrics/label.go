package metrics

import (
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// other replaces every value that is unknown or beyond the limit.
	other = "other"
	// maxNames exceeds the plugins or signals of a node.
	maxNames = 64
	// maxNameBytes bounds the size of a series.
	maxNameBytes = 253
)

// The values of labels that are not names.
var (
	triggers = []string{"interval", "wake", "request"}
	calls    = append([]string{"describe", "configure", "metrics"}, eviction.AllCapabilities().Names()...)
)

func oneOf(value string, known []string) string {
	if slices.Contains(known, value) {
		return value
	}
	return other
}

// names passes the first few values of a label and folds the rest into one: plugins choose their
// names, and a series lives as long as the process.
type names struct {
	mu   sync.Mutex
	seen map[string]bool
}

func bounded() *names { return &names{seen: map[string]bool{}} }

func (n *names) of(name string) string {
	// Prometheus panics on a label that is not UTF-8.
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) {
		return other
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen[name] {
		return name
	}
	if len(n.seen) >= maxNames {
		return other
	}
	n.seen[name] = true
	return name
}

// maxFolded bounds the remembered names without their own series.
const maxFolded = 1024

// flags is a boolean gauge by name. Names beyond the first few share one series, which shows the
// alarm value while any of them does.
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

// fold changes the state of the names without their own series, and updates the shared one.
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
