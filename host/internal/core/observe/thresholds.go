package observe

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// Thresholds holds the thresholds in force: the configured ones, with custom signals as plugins
// define them, and those derived for writable layers once the layout is known.
type Thresholds struct {
	// Layout of the filesystems, 0 while unknown. Once known, only another known layout replaces
	// it.
	Layout eviction.Layout
	// Split lists the assignments that give one filesystem of the layout to two plugins.
	Split []string
	// Definitions of custom signals. They are replaced and never changed.
	Definitions map[eviction.Signal]eviction.Definition

	configured []policy.Threshold
	assigned   policy.Assigned
	inForce    []policy.Threshold
	// once: ask for the layout only until it is known, which asked records.
	once, asked bool
	// problem is the last layout error that was logged.
	problem string
	log     *slog.Logger
}

// InForce returns the thresholds in force. The caller must not modify them.
func (t *Thresholds) InForce() []policy.Threshold { return t.inForce }

// Has reports whether a threshold is still in force.
func (t *Thresholds) Has(u policy.Threshold) bool {
	return slices.ContainsFunc(t.inForce, func(v policy.Threshold) bool { return v.Key() == u.Key() })
}

// Of returns the first threshold of s.
func (t *Thresholds) Of(s eviction.Signal) (policy.Threshold, bool) {
	i := slices.IndexFunc(t.inForce, func(u policy.Threshold) bool { return u.Signal == s })
	if i < 0 {
		return policy.Threshold{}, false
	}
	return t.inForce[i], true
}

// Condition returns the condition of s, "" if s has no threshold.
func (t *Thresholds) Condition(s eviction.Signal) eviction.Condition {
	u, _ := t.Of(s)
	return u.Definition().Condition
}

// configure puts c in force and returns the signals that no longer have a threshold.
func (t *Thresholds) configure(c Config) (gone []eviction.Signal) {
	former := t.configured
	t.configured, t.assigned, t.once = policy.Define(c.Thresholds, t.Definitions), c.Assigned, c.LayoutOnce
	t.derive()
	for _, f := range former {
		if !slices.ContainsFunc(t.configured, func(u policy.Threshold) bool { return u.Signal == f.Signal }) {
			gone = append(gone, f.Signal)
		}
	}
	return gone
}

// derive puts the thresholds in force that follow from configuration and layout.
func (t *Thresholds) derive() policy.ContainerFs {
	d := policy.WithContainerFs(t.configured, t.Layout)
	for _, u := range d.Dropped {
		t.log.Warn("configured threshold replaced by one that follows from another", "signal", u.Signal, "threshold", u.Value.String())
	}
	t.inForce, t.Split = d.Derived, nil
	if t.assigned != nil {
		if err := policy.Split(t.assigned, t.Layout); err != nil {
			t.log.Error("assignments split a filesystem, that of nodefs counts, else that of imagefs", "layout", t.Layout.String(), "error", err)
			t.Split = strings.Split(err.Error(), "\n")
		}
	}
	return d
}

// Define puts the definitions of configured custom signals by the plugins of pin in force, and
// returns the former definitions of those that changed. A definition outlives its plugin.
// Thresholds of a signal that no plugin has defined are not in force.
func (t *Thresholds) Define(pin *registry.Pin) (former map[eviction.Signal]eviction.Definition) {
	before, now := t.Definitions, map[eviction.Signal]eviction.Definition{}
	for _, u := range t.configured {
		if _, builtin := eviction.Builtin(u.Signal); builtin {
			continue
		}
		d, ok := pin.Definition(u.Signal)
		if !ok && pin.MissingObserver(u.Signal) != nil {
			d, ok = before[u.Signal]
		}
		if ok {
			now[u.Signal] = d
		}
	}
	if maps.Equal(before, now) {
		return nil
	}
	t.logDefinitions(before, now)
	t.Definitions = now
	t.configured, t.inForce = policy.Define(t.configured, now), policy.Define(t.inForce, now)
	former = maps.Clone(before)
	maps.DeleteFunc(former, func(s eviction.Signal, d eviction.Definition) bool { return now[s] == d })
	return former
}

// logDefinitions logs which custom signals came, went or changed their definition.
func (t *Thresholds) logDefinitions(former, now map[eviction.Signal]eviction.Definition) {
	for _, s := range slices.Sorted(maps.Keys(now)) {
		d, was := now[s], former[s]
		attrs := []any{"signal", s, "unit", d.Unit, "format", d.Format, "resource", d.Resource, "condition", d.Condition}
		switch {
		case was == eviction.Definition{}:
			t.log.Info("custom signal is there, its thresholds are in force", attrs...)
		case was != d:
			t.log.Warn("custom signal redefined, its thresholds start over and its former condition ends",
				append(attrs, "formerUnit", was.Unit, "formerFormat", was.Format, "formerResource", was.Resource, "formerCondition", was.Condition)...)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(former)) {
		if _, stays := now[s]; !stays {
			t.log.Info("custom signal is gone, its thresholds have no effect", "signal", s, "condition", former[s].Condition)
		}
	}
}

// learn applies the layout reported by its owner, nil for none, and returns the thresholds for this
// pass. It returns an error if the layout is unknown, because the thresholds of disks would be
// wrong.
func (t *Thresholds) learn(r *eviction.LayoutReport) ([]policy.Threshold, error) {
	if r == nil {
		return t.inForce, nil
	}
	if r.ImageFsErr != "" {
		if t.Layout == 0 {
			return nil, fmt.Errorf("%w: %s", ErrNoLayout, r.ImageFsErr)
		}
		t.logLayout("images", r.ImageFsErr)
		return t.inForce, nil
	}
	if r.ContainerFsErr != "" {
		t.logLayout("writable layers", r.ContainerFsErr)
		if t.Layout != 0 {
			return t.inForce, nil
		}
	} else {
		t.problem = ""
	}
	t.asked = true
	layout, former := r.Layout(), t.Layout
	if layout == former {
		return t.inForce, nil
	}
	t.log.Info("layout of the filesystems", "layout", layout.String(), "former", former.String())
	t.Layout = layout
	d := t.derive()
	if former == 0 {
		return d.First, nil
	}
	return d.Derived, nil
}

// logLayout logs once why part of the layout is unknown. The known layout stays; without one,
// writable layers count as being with the images.
func (t *Thresholds) logLayout(of, problem string) {
	if t.problem != problem {
		t.problem = problem
		t.log.Warn("layout of the filesystems is not known", "of", of, "layout", t.Layout.String(), "error", problem)
	}
}

// Served removes thresholds of signals that no plugin observes, not even one that is down: they
// have no effect, and nothing waits for them.
func (t *Thresholds) Served(pin *registry.Pin, thresholds []policy.Threshold) []policy.Threshold {
	return slices.DeleteFunc(slices.Clone(thresholds), func(u policy.Threshold) bool {
		return !u.Defined() || len(pin.Serving(t.Layout, u.Signal, eviction.CanObserve)) == 0 && t.missingObserver(pin, u.Signal) == nil
	})
}

// missingObserver returns why no plugin observes s although one should, under any of its names.
func (t *Thresholds) missingObserver(pin *registry.Pin, s eviction.Signal) error {
	why := pin.MissingObserver(s)
	if from, derived := t.Layout.ContainerFsFrom(s); why == nil && derived {
		return pin.MissingObserver(from)
	}
	return why
}

// withContainerFs adds the signals of writable layers that thresholds may be derived for in this
// pass. The kubelet observes them from its first pass on, so that new thresholds do not take a
// repeated figure for a new one.
func withContainerFs(signals []eviction.Signal) []eviction.Signal {
	all := slices.Clone(signals)
	for _, derived := range eviction.SignalsOn(eviction.ContainerFs) {
		of, _ := eviction.Builtin(derived)
		from := func(s eviction.Signal) bool {
			b, _ := eviction.Builtin(s)
			return b.Filesystem != "" && b.Definition == of.Definition
		}
		if !slices.Contains(all, derived) && slices.ContainsFunc(signals, from) {
			all = append(all, derived)
		}
	}
	return all
}
