package disk

import (
	"context"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// An Option modifies the plugin that New returns.
type Option func(*plugin)

// A Step is a vendor's step of node-level reclaim.
type Step struct {
	// ReclaimStep has the step's name, which must be domain-qualified to be unique
	// ("acme.example/trim"), and the layouts in which it helps.
	eviction.ReclaimStep
	// Signals are those that the step helps. It also runs for signals that share their
	// filesystem in the current layout.
	Signals []eviction.Signal
	// Run frees what it can, like eviction.Reclaimer.Reclaim. progress is never nil.
	Run func(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error)
}

// WithStep adds a step that runs before the built-in ones and after those added before it. It
// works with every source of figures.
func WithStep(s Step) Option {
	return func(p *plugin) {
		for _, signal := range s.Signals {
			own := specOf(p, signal)
			at := len(own.ReclaimSteps)
			if i := slices.IndexFunc(own.ReclaimSteps, func(s eviction.ReclaimStep) bool {
				return slices.Contains([]string{ContainerGC, ImageGC}, s.Name)
			}); i >= 0 {
				at = i
			}
			own.ReclaimSteps = slices.Insert(slices.Clone(own.ReclaimSteps), at, s.ReclaimStep)
		}
		p.steps = append(p.steps, s)
	}
}

// WithObserver makes o observe signals instead of this plugin. o also observes the containerfs
// signals whose threshold follows from one of these: containerfs.available has the figure of
// imagefs.available if writable layers share a separate image filesystem, else of nodefs.available.
// This plugin still reports the layout, and an error of o makes only the signals that o observes unknown.
func WithObserver(o eviction.Observer, signals ...eviction.Signal) Option {
	return func(p *plugin) {
		for _, signal := range signals {
			specOf(p, signal)
		}
		p.observers = append(p.observers, observer{o, signals})
	}
}

// specOf returns p's entry for a signal. It adds one for an unknown signal: a vendor's custom
// signal, whose definition the vendor sets in Plugin.Signals.
func specOf(p *plugin, signal eviction.Signal) *eviction.SignalSpec {
	i := slices.IndexFunc(p.signals, func(s eviction.SignalSpec) bool { return s.Signal == signal })
	if i < 0 {
		p.signals = append(p.signals, eviction.SignalSpec{Signal: signal})
		i = len(p.signals) - 1
	}
	return &p.signals[i]
}
