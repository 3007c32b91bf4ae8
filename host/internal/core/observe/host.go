package observe

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/policy"
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
}

// fallBack reads signals that no plugin has observed for a while, so that a broken plugin does not
// hide a shortage. began is when the plugins were first asked. It leaves spared to their sources
// for the time of SourceStands, and sets the observer of each signal.
func (o *Observer) fallBack(ctx context.Context, began time.Time, signals []eviction.Signal, spared map[eviction.Signal]bool, got map[eviction.Signal]eviction.Observation) {
	var due []eviction.Signal
	for _, s := range signals {
		of := o.of(s)
		if g, ok := got[s]; !ok || g.State != eviction.Unknown || spared[s] && !o.outlasts(s) || !o.fallsBack(s) {
			o.noLongerByHost(s, of)
			continue
		}
		if of.unknownSince.IsZero() {
			of.unknownSince = began
		}
		of.readAfter = unknownFor
		if spared[s] {
			of.readAfter = o.SourceStands
		}
		if time.Since(of.unknownSince) >= of.readAfter {
			due = append(due, s)
		}
	}
	for _, read := range o.readByHost(ctx, due) {
		s, of := read.Signal, o.of(read.Signal)
		why := got[s].Err
		if read.State == eviction.Unknown {
			read.Err = why + "; read by the host itself: " + read.Err
		} else {
			of.by = HostItself
		}
		got[s] = read
		if !of.readByHost {
			of.readByHost = true
			o.Log.Warn("no plugin observes the signal, host reads it", "signal", s, "plugin", why, "error", read.Err)
		}
		o.Metrics.ReadByHost(s, read.State != eviction.Unknown)
	}
}

// noLongerByHost ends the time in which the host reads s.
func (o *Observer) noLongerByHost(s eviction.Signal, of *signal) {
	if of.readByHost {
		o.Metrics.ReadByHost(s, false)
		o.Log.Info("host no longer reads the signal", "signal", s)
	}
	of.unknownSince, of.readByHost = time.Time{}, false
}

// outlasts reports whether the host reads s at last although its source has no figure.
func (o *Observer) outlasts(s eviction.Signal) bool {
	d, _ := eviction.Builtin(s)
	return d.FromKernel && o.SourceStands < Forever
}

// confirm reads signals of q that only a custom plugin has observed, because the built-in one,
// which should be asked beside it, is gone or does not answer. The host cannot read the kubelet's
// summary.
func (o *Observer) confirm(ctx context.Context, q *inquiry) {
	if o.Fallback == nil || o.SourceStands > 0 {
		return
	}
	alone := slices.DeleteFunc(q.unconfirmed(), func(s eviction.Signal) bool { return !o.Fallback.Reads(s) })
	for _, read := range o.readByHost(ctx, alone) {
		q.claim(policy.Claim{Observation: read, By: HostItself})
	}
}

func (o *Observer) readByHost(ctx context.Context, signals []eviction.Signal) []eviction.Observation {
	if len(signals) == 0 || ctx.Err() != nil {
		return nil
	}
	return o.Fallback.Observe(ctx, signals)
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
