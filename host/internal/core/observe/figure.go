package observe

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// HostItself is the host's name as an observer without a plugin, and as the ranker with its
	// built-in comparators.
	HostItself = "evictd"
	// unknownFor is the time after which the host itself reads a signal that is unknown.
	unknownFor = time.Second
)

// A Fallback reads figures of the node without a plugin.
type Fallback interface {
	// Reads reports whether it can read s.
	Reads(s eviction.Signal) bool
	// Observe returns one observation of each signal quickly, at the latest when ctx ends.
	Observe(ctx context.Context, signals []eviction.Signal) []eviction.Observation
	// Measure returns the usage of s of the pods that it can read, likewise.
	Measure(ctx context.Context, s eviction.Signal, pods []eviction.Pod) []eviction.Measurement
	// Whole returns what contains all use of s, as far as it can read that at once.
	Whole(s eviction.Signal) eviction.Whole
}

// receive adds the figures of one plugin to the searches.
func (o *Observer) receive(r Request, a answer) {
	custom := !a.plugin.Builtin()
	for i, s := range a.searches {
		observation := a.observations[i]
		if !s.compared || !custom { // the built-in plugin reports what its source says
			s.noSource = observation.State == eviction.Unknown && (a.err == nil || errors.Is(a.err, eviction.ErrRefused))
		}
		o.claim(r, s.search, policy.Claim{Observation: observation, By: a.plugin.Name, Custom: custom})
	}
}

// claim adds a figure of a signal. It replaces the former one unless both are compared.
func (o *Observer) claim(r Request, s *search, f policy.Claim) {
	if !s.compared {
		s.figure = f
		return
	}
	s.claims = append(s.claims, f)
	slices.SortStableFunc(s.claims, func(a, b policy.Claim) int { return trust(a) - trust(b) })
	r.State.Count(o.Thresholds.inForce, s.claims)
	s.figure = s.claims[0]
}

// trust returns the order of preference of an observer, the smallest for the most trusted.
func trust(f policy.Claim) int {
	switch {
	case f.Custom:
		return 0
	case f.By != HostItself:
		return 1
	default:
		return 2
	}
}

// fallBack has the host read what the plugins have not observed. First it reads signals to compare
// with a custom plugin's figures, because the built-in one is gone or does not answer. Then it reads
// signals that no plugin has observed for a while, so that a broken plugin does not hide a
// shortage. began is when the plugins were first asked.
func (o *Observer) fallBack(ctx context.Context, r Request, began time.Time, searches []*search) {
	for _, read := range o.readByHost(ctx, searches, o.unconfirmed) {
		o.claim(r, searchFor(searches, read.Signal), policy.Claim{Observation: read, By: HostItself})
	}
	for _, s := range searches {
		if s.figure.Signal == "" {
			if why := o.Thresholds.missingObserver(r.Pin, s.signal); why != nil {
				s.figure.Observation = eviction.Observation{Signal: s.signal, Err: printable.ClipText(why.Error())}
			}
		}
		o.trackUnknown(began, s)
	}
	for _, read := range o.readByHost(ctx, searches, o.due) {
		s := searchFor(searches, read.Signal)
		of, why := o.of(s.signal), s.figure.Err
		if read.State == eviction.Unknown {
			read.Err = why + "; read by the host itself: " + read.Err
		} else {
			s.figure.By = HostItself
		}
		s.figure.Observation = read
		if !of.readByHost {
			of.readByHost = true
			o.Log.Warn("no plugin observes the signal, host reads it", "signal", s.signal, "plugin", why, "error", read.Err)
		}
		o.Metrics.ReadByHost(s.signal, read.State != eviction.Unknown)
	}
}

// readByHost reads the signals of the searches that satisfy wanted.
func (o *Observer) readByHost(ctx context.Context, searches []*search, wanted func(*search) bool) []eviction.Observation {
	var signals []eviction.Signal
	for _, s := range searches {
		if wanted(s) {
			signals = append(signals, s.signal)
		}
	}
	if len(signals) == 0 || ctx.Err() != nil {
		return nil
	}
	return o.Fallback.Observe(ctx, signals)
}

func searchFor(searches []*search, signal eviction.Signal) *search {
	return searches[slices.IndexFunc(searches, func(s *search) bool { return s.signal == signal })]
}

// unconfirmed reports whether the host reads s beside the only custom plugin that has observed it.
// It cannot read the kubelet's summary.
func (o *Observer) unconfirmed(s *search) bool {
	known := func(custom bool) bool {
		return slices.ContainsFunc(s.claims, func(f policy.Claim) bool { return f.Custom == custom && f.State != eviction.Unknown })
	}
	return o.Fallback != nil && o.SourceStands == 0 && o.Fallback.Reads(s.signal) && known(true) && !known(false)
}

// trackUnknown records since when no plugin has observed s, and when the host reads it. The host
// leaves a signal to its source for the time of SourceStands, and then reads only signals of the
// kernel.
func (o *Observer) trackUnknown(began time.Time, s *search) {
	of, stands := o.of(s.signal), s.noSource && o.SourceStands > 0
	never := stands && (!s.fromKernel || o.SourceStands == Forever)
	if s.figure.Signal == "" || s.figure.State != eviction.Unknown || never || !o.fallsBack(s.signal) {
		if of.readByHost {
			o.Metrics.ReadByHost(s.signal, false)
			o.Log.Info("host no longer reads the signal", "signal", s.signal)
		}
		of.unknownSince, of.readByHost = time.Time{}, false
		return
	}
	if of.unknownSince.IsZero() {
		of.unknownSince = began
	}
	of.readAfter = unknownFor
	if stands {
		of.readAfter = o.SourceStands
	}
}

// due reports whether s has been unknown for so long that the host reads it.
func (o *Observer) due(s *search) bool {
	of := o.of(s.signal)
	return !of.unknownSince.IsZero() && time.Since(of.unknownSince) >= of.readAfter
}

// fallsBack reports whether the host reads s when no plugin does.
func (o *Observer) fallsBack(s eviction.Signal) bool {
	return o.Fallback != nil && o.Fallback.Reads(s) && slices.ContainsFunc(o.Thresholds.inForce, func(t policy.Threshold) bool {
		return t.Signal == s && t.Hard()
	})
}

// LookAt returns when the host must read the signals that no plugin observes, after a pass that
// ended at now. It reads often, because no plugin watches such a signal either.
func (o *Observer) LookAt(now time.Time) (times []time.Time) {
	for _, of := range o.signals {
		switch {
		case of.unknownSince.IsZero():
		case of.readByHost:
			times = append(times, now.Add(unknownFor))
		default:
			times = append(times, of.unknownSince.Add(of.readAfter))
		}
	}
	return times
}
