package disk

import (
	"context"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// An Option changes what New returns.
type Option func(*plugin)

// A Step is a vendor's step of node-level reclaim.
type Step struct {
	// ReclaimStep names the step, by a domain-qualified name so that it is no other
	// plugin's ("acme.example/trim"), and says in which layouts it helps.
	eviction.ReclaimStep
	// Signals are those that the step helps. It runs for what else is the same
	// filesystem in the layout of now, too.
	Signals []eviction.Signal
	// Run frees what it can, as eviction.Reclaimer does. progress is never nil.
	Run func(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error)
}

// WithStep adds a step that runs before the built-in ones, after those that were
// added before it. It works with every source of figures.
func WithStep(s Step) Option {
	return func(p *plugin) {
		for _, signal := range s.Signals {
			own := specOf(p, signal)
			at := len(own.ReclaimSteps)
			if i := slices.IndexFunc(own.ReclaimSteps, builtin); i >= 0 {
				at = i
			}
			own.ReclaimSteps = slices.Insert(slices.Clone(own.ReclaimSteps), at, s.ReclaimStep)
		}
		p.steps = append(p.steps, s)
	}
}

// WithObserver has signals observed by o, which is asked for nothing else. Its figure
// of a filesystem is that of writable layers, too, where their threshold follows from
// that signal's: containerfs.available is imagefs.available where images have a
// filesystem that writable layers are on, else nodefs.available. The layout stays this
// plugin's to report, and an error of o makes its signals unknown and no others.
func WithObserver(o eviction.Observer, signals ...eviction.Signal) Option {
	return func(p *plugin) {
		for _, signal := range signals {
			specOf(p, signal)
		}
		p.observers = append(p.observers, observer{o, signals})
	}
}

// specOf returns what p offers for a signal. One that it does not have is added: a
// custom signal of the vendor, whose definition goes into Plugin.Signals.
func specOf(p *plugin, signal eviction.Signal) *eviction.SignalSpec {
	i := slices.IndexFunc(p.signals, func(s eviction.SignalSpec) bool { return s.Signal == signal })
	if i < 0 {
		p.signals = append(p.signals, eviction.SignalSpec{Signal: signal})
		i = len(p.signals) - 1
	}
	return &p.signals[i]
}

func builtin(s eviction.ReclaimStep) bool { return s.Name == ContainerGC || s.Name == ImageGC }
