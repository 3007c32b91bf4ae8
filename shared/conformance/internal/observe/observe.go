// Package observe checks Observe.
package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	offered = "all signals that are offered for it"
	// coarse is the longest resolution of a clock that plugins may use for sample times.
	coarse = 1500 * time.Millisecond
	// NobodysSignal is a signal that no plugin serves.
	NobodysSignal eviction.Signal = "conformance.example/nobodys"
)

// request asks for all signals and wants each once; an Observe is about no pods.
var request check.Request = func(_ context.Context, t *check.Target, _, _ int) func(context.Context, time.Duration) error {
	return func(ctx context.Context, limit time.Duration) error {
		signals := t.Offering(eviction.CanObserve)
		reply, err := In(ctx, t, limit, eviction.PassView{Pass: 1, View: eviction.ViewBefore}, signals)
		return cmp.Or(err, eachOnce(signals, reply.Observations))
	}
}

// Group has the checks of Observe.
var Group = check.Group{Name: "observe", RPC: "Observe", Needs: eviction.CanObserve, Input: offered, Checks: []check.Check{
	{Name: "observe", Gate: true, Expect: fmt.Sprintf("within %s each signal once, as observed or absent", eviction.ObserveDeadline), Run: observed},
	{Name: "observe-only-asked", Input: "one signal at a time, and none", Expect: "nothing that was not asked for", Run: observedOnlyAsked},
	{Name: "observe-bounds", Expect: "capacity at least 0, available at most capacity", Run: Each(withinBounds)},
	{Name: "observe-time", Expect: fmt.Sprintf("no time, or a time at most %s ahead and %s old, by either clock", eviction.MaxSampleAhead, eviction.MaxSampleAge), Run: Each(inTime)},
	{Name: "observe-fresh", Input: "the same request again and again", Expect: "later times, where there are times: a figure is never cached", Run: observedFresh},
	{Name: "observe-after-reclaim", Input: "view AFTER_RECLAIM, and a view that does not exist yet", Expect: "the same signals as before", Run: observedInEachView},
	{Name: "observe-layout", Expect: "a layout from the plugin that owns it, none from others", Run: observedLayout},
	{Name: "observe-unknown-signal", Input: `the signal "` + string(NobodysSignal) + `"`, Expect: "no figure for it", Run: observedNobodys(1)},
	{Name: "observe-many-signals", Input: "20000 signals that it does not have", Expect: "an answer without figures, or a refusal", Run: observedNobodys(20_000)},
	// The calls wait for each other, so the limit of a single call does not apply.
	{Name: "observe-parallel", Input: "50 calls at once", Expect: "each one is answered in full", Run: request.Parallel(50, 0, check.Time-time.Second)},
	{Name: "observe-cancelled", Input: "30 calls that end before their answer, then one more", Expect: "an answer to the last one", Run: request.Cancelled(30, eviction.ObserveDeadline)},
}}

func observed(ctx context.Context, t *check.Target) error {
	list, err := All(ctx, t)
	if err != nil {
		return err
	}
	signals := t.Offering(eviction.CanObserve)
	if err := eachOnce(signals, list); err != nil {
		return err
	}
	unknown := map[string][]string{} // signals by reason
	n := 0
	for _, o := range list {
		if o.State == eviction.Unknown && slices.Contains(signals, o.Signal) {
			unknown[o.Err] = append(unknown[o.Err], string(o.Signal))
			n++
		}
	}
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(unknown)) {
		why = append(why, fmt.Sprintf("%s unknown: %s", strings.Join(unknown[reason], ", "), reason))
	}
	switch {
	case len(unknown[""]) > 0:
		return fmt.Errorf("%s, without a reason", check.Lines(why))
	case n == len(signals):
		return check.Cannot(check.Lines(why) + " (if it needs a config to find them here, give it: --config FILE)")
	case n > 0:
		return check.Noted(check.Lines(why))
	}
	return nil
}

// eachOnce returns an error unless each signal has exactly one observation. It ignores other
// signals: see observe-only-asked.
func eachOnce(signals []eviction.Signal, list []eviction.Observation) error {
	times := map[eviction.Signal]int{}
	for _, o := range list {
		times[o.Signal]++
	}
	for _, signal := range signals {
		if times[signal] != 1 {
			return fmt.Errorf("%s is answered %d times", signal, times[signal])
		}
	}
	return nil
}

func observedOnlyAsked(ctx context.Context, t *check.Target) error {
	signals := t.Offering(eviction.CanObserve)
	for _, asked := range append([][]eviction.Signal{{}, signals}, slices.Collect(slices.Chunk(signals, 1))...) {
		reply, err := Call(ctx, t, eviction.ViewBefore, asked...)
		if err := check.Answered(err); err != nil {
			return fmt.Errorf("asked for %q: %w", asked, err)
		}
		for _, o := range reply.Observations {
			if !slices.Contains(asked, o.Signal) {
				return fmt.Errorf("asked for %q, got %q", asked, o.Signal)
			}
		}
	}
	return nil
}

// Each returns a check that applies see to each observation.
func Each(see func(*check.Target, *eviction.Observation) error) check.Run {
	return func(ctx context.Context, t *check.Target) error {
		list, err := All(ctx, t)
		bad := []error{err}
		for i := range list {
			bad = append(bad, see(t, &list[i]))
		}
		return errors.Join(bad...)
	}
}

func withinBounds(_ *check.Target, o *eviction.Observation) error {
	if o.State == eviction.Observed && (o.Capacity < 0 || o.Available > o.Capacity) {
		return fmt.Errorf("%s: available %d, capacity %d", o.Signal, o.Available, o.Capacity)
	}
	return nil
}

func inTime(_ *check.Target, o *eviction.Observation) error {
	if o.State != eviction.Observed {
		return nil
	}
	now, boot := time.Now(), nodefs.BootNanos()
	var bad []error
	if err := eviction.CheckSampleAge(now.Sub(o.Time)); err != nil && !o.Time.IsZero() {
		bad = append(bad, fmt.Errorf("%s: time %s, it is %s: %w", o.Signal, o.Time.Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano), err))
	}
	if err := eviction.CheckSampleAge(time.Duration(boot - o.BootNanos)); err != nil && o.BootNanos != 0 {
		bad = append(bad, fmt.Errorf("%s: boot time %d ns, it is %d: %w", o.Signal, o.BootNanos, boot, err))
	}
	return errors.Join(bad...)
}

// observedFresh observes until each signal has a later time than at first.
func observedFresh(ctx context.Context, t *check.Target) error {
	first, err := All(ctx, t)
	if err != nil {
		return err
	}
	if others := takenByOthers(t, first); len(others) > 0 {
		return check.Noted(check.Lines(others))
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		list, err := All(ctx, t)
		if err != nil {
			return err
		}
		stale := notLater(first, list)
		if len(stale) == 0 {
			return nil
		}
		if time.Since(begin) > coarse || ctx.Err() != nil {
			return errors.New(check.Lines(stale))
		}
	}
}

// takenByOthers lists figures that are older than this start of the plugin: it cannot have
// cached them itself, so they come from another program that took them earlier.
func takenByOthers(t *check.Target, list []eviction.Observation) []string {
	var all []string
	for _, o := range list {
		if o.State == eviction.Observed && !o.Time.IsZero() && o.BootNanos == 0 && o.Time.Before(t.Since) {
			all = append(all, fmt.Sprintf("%s: of %s, before the plugin was asked for the first time: whether it keeps figures cannot be seen", o.Signal, o.Time.Format(time.RFC3339Nano)))
		}
	}
	return all
}

func notLater(first, now []eviction.Observation) []string {
	var stale []string
	for _, was := range first {
		for _, is := range now {
			if is.Signal != was.Signal || is.State != eviction.Observed || was.State != eviction.Observed {
				continue
			}
			if !was.Time.IsZero() && !is.Time.After(was.Time) || was.BootNanos != 0 && is.BootNanos <= was.BootNanos {
				stale = append(stale, fmt.Sprintf("%s: time %s and then %s, boot time %d and then %d ns",
					is.Signal, was.Time.Format(time.RFC3339Nano), is.Time.Format(time.RFC3339Nano), was.BootNanos, is.BootNanos))
			}
		}
	}
	return stale
}

func observedInEachView(ctx context.Context, t *check.Target) error {
	signals := t.Offering(eviction.CanObserve)
	reply, err := Call(ctx, t, eviction.ViewAfterReclaim, signals...)
	if err != nil {
		return err
	}
	if err := eachOnce(signals, reply.Observations); err != nil {
		return fmt.Errorf("view AFTER_RECLAIM: %w", err)
	}
	request := check.Message{}.Number(1, 1).Number(2, 99).Newer()
	for _, signal := range signals {
		request = request.Text(3, string(signal))
	}
	if _, err := t.CallWithin(ctx, eviction.ObserveDeadline, "Observe", request); err != nil {
		return fmt.Errorf("view 99 and fields that do not exist yet: %w", err)
	}
	return nil
}

func observedLayout(ctx context.Context, t *check.Target) error {
	reply, err := Call(ctx, t, eviction.ViewBefore, t.Offering(eviction.CanObserve)...)
	switch {
	case err != nil:
		return err
	case t.Plugin.OwnsLayout && reply.Layout == nil:
		return errors.New("it owns the layout and reports none")
	case !t.Plugin.OwnsLayout && reply.Layout != nil:
		return errors.New("it does not own the layout and reports one")
	}
	return nil
}

// observedNobodys requests n signals that no plugin has.
func observedNobodys(n int) check.Run {
	return func(ctx context.Context, t *check.Target) error {
		signals := []eviction.Signal{NobodysSignal}
		for i := 1; i < n; i++ {
			signals = append(signals, eviction.Signal(fmt.Sprintf("%s.%d", NobodysSignal, i)))
		}
		reply, err := Call(ctx, t, eviction.ViewBefore, signals...)
		if err := check.Answered(err); err != nil {
			return err
		}
		for _, o := range reply.Observations {
			if o.State == eviction.Observed && strings.HasPrefix(string(o.Signal), string(NobodysSignal)) {
				return fmt.Errorf("%s: available %d, capacity %d", o.Signal, o.Available, o.Capacity)
			}
		}
		return nil
	}
}

// Call observes signals in pass 1 with the given view.
func Call(ctx context.Context, t *check.Target, view eviction.View, signals ...eviction.Signal) (eviction.ObserveReply, error) {
	return In(ctx, t, eviction.ObserveDeadline, eviction.PassView{Pass: 1, View: view}, signals)
}

// In observes signals in the given pass and view, within limit.
func In(ctx context.Context, t *check.Target, limit time.Duration, in eviction.PassView, signals []eviction.Signal) (eviction.ObserveReply, error) {
	return check.Ask(ctx, t, limit, func(ctx context.Context) (eviction.ObserveReply, error) {
		return t.Plugin.Observer.Observe(ctx, eviction.ObserveRequest{PassView: in, Signals: signals})
	})
}

// All observes all signals that the plugin offers to observe.
func All(ctx context.Context, t *check.Target) ([]eviction.Observation, error) {
	reply, err := Call(ctx, t, eviction.ViewBefore, t.Offering(eviction.CanObserve)...)
	return reply.Observations, err
}
