// Package meters asks plugins for their own metrics, all at once, and keeps the last good answers.
//
// An answer that is late or wrong costs the plugin its new figures and nothing else. The package knows no format of
// metrics: host/internal/face/metrics shows what it returns.
package meters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// Options configures Meters.
type Options struct {
	// Pin pins the serving plugins.
	Pin func() *registry.Pin
	// Own reports whether the host has a metric of that name, below the prefix of those of plugins.
	Own func(name string) bool
	// Failed counts a call without a usable answer.
	Failed func(plugin, call string, err error)
	Log    *slog.Logger
}

// Meters holds the metrics of the serving plugins. It is safe for concurrent use. Make it with New.
type Meters struct {
	Options

	mu sync.Mutex
	// all are the plugins with metrics, by name.
	all []*meter
}

// A meter is one process of a plugin.
type meter struct {
	*registry.Instance

	// asked is closed at the end of the call under way, nil if there is none.
	asked chan struct{}
	last  []eviction.Metric
	// failure and hidden say why there is no new answer, and what of the last one is not shown.
	failure, hidden string
}

// New returns Meters without any answer.
func New(o Options) *Meters { return &Meters{Options: o} }

// Ask asks each plugin, unless a call to it is under way, and returns when all have answered, or after
// eviction.MetricsDeadline.
func (m *Meters) Ask(ctx context.Context) {
	// Others may wait for the calls, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eviction.MetricsDeadline)
	defer cancel()
	pin, asked := m.begin(ctx)
	defer pin.Release() // the calls have ended by then
	for _, one := range asked {
		select {
		case <-one:
		case <-ctx.Done():
			return
		}
	}
}

// begin begins the calls, and forgets the plugins that are gone.
func (m *Meters) begin(ctx context.Context) (pin *registry.Pin, asked []chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pin = m.Pin() // no later one may come before it
	former := m.all
	m.all = nil
	for _, i := range pin.Instances() {
		if i.Plugin.Meter == nil {
			continue
		}
		one := &meter{Instance: i}
		if n := slices.IndexFunc(former, func(f *meter) bool { return f.Instance == i }); n >= 0 {
			one = former[n]
		}
		if one.asked == nil {
			one.asked = make(chan struct{})
			go m.ask(ctx, one, one.asked)
		}
		m.all, asked = append(m.all, one), append(asked, one.asked)
	}
	slices.SortFunc(m.all, func(a, b *meter) int { return cmp.Compare(a.Name, b.Name) })
	return pin, asked
}

func (m *Meters) ask(ctx context.Context, one *meter, asked chan struct{}) {
	defer close(asked)
	metrics, err := one.Plugin.Meter.Metrics(ctx)
	if err != nil {
		m.Failed(one.Name, "metrics", err)
	}
	m.mu.Lock()
	one.asked = nil
	if err == nil {
		one.last = metrics
	}
	isNew := changed(&one.failure, err)
	m.mu.Unlock()
	if isNew {
		m.Log.Warn("plugin has no new metrics, the last ones are shown", "plugin", one.Name, "error", err)
	}
}

// changed keeps an error, and reports whether it is another one than the last.
func changed(last *string, err error) bool {
	was := *last
	if *last = ""; err != nil {
		*last = err.Error()
	}
	return err != nil && *last != was
}

// A Series is one figure to show.
type Series struct {
	eviction.Sample

	Plugin, Name, Help string
	Type               eviction.MetricType
}

// Series returns the last figures, by plugin.
func (m *Meters) Series() []Series {
	m.mu.Lock()
	all, hidden := merge(m.all, m.Own)
	for _, one := range m.all {
		if !changed(&one.hidden, hidden[one.Name]) {
			delete(hidden, one.Name)
		}
	}
	m.mu.Unlock()
	for plugin, err := range hidden {
		m.Log.Warn("metrics of a plugin are not shown", "plugin", plugin, "error", err)
	}
	return all
}

// merge returns what is shown, and why the rest is not. A metric that several plugins have gets the type and the help
// of the first one by name; those of another type are not shown.
func merge(by []*meter, own func(string) bool) (all []Series, hidden map[string]error) {
	first, hidden := map[string]*eviction.Metric{}, map[string]error{}
	for _, one := range by {
		for i := range one.last {
			metric, why := &one.last[i], "another plugin has it as another type"
			if own(metric.Name) {
				why = "the host has a metric of this name"
			} else if first[metric.Name] == nil {
				first[metric.Name] = metric
			}
			is := first[metric.Name]
			if is == nil || is.Type != metric.Type {
				hidden[one.Name] = errors.Join(hidden[one.Name], fmt.Errorf("%s: %s", metric.Name, why))
				continue
			}
			for _, s := range metric.Samples {
				all = append(all, Series{s, one.Name, metric.Name, is.Help, is.Type})
			}
		}
	}
	return all, hidden
}
