package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// coarse is the longest tick of a clock that stamps samples.
	coarse = 1500 * time.Millisecond
	// nobodysSignal is a signal that no plugin serves.
	nobodysSignal eviction.Signal = "conformance.example/nobodys"
)

var observeGroup = group{name: "observe", rpc: "Observe", needs: eviction.CanObserve, checks: []check{
	{
		name: "observe", input: "all signals that are offered for it", gate: true,
		expect: fmt.Sprintf("within %s each signal once, as observed or absent", observeTime), run: observed,
	},
	{
		name: "observe-only-asked", input: "one signal at a time, and none",
		expect: "nothing that was not asked for", run: observedOnlyAsked,
	},
	{
		name: "observe-bounds", input: "all signals that are offered for it",
		expect: "capacity at least 0, available at most capacity", run: observedWithinBounds,
	},
	{
		name: "observe-time", input: "all signals that are offered for it",
		expect: fmt.Sprintf("no time, or a time at most %s ahead and %s old, by either clock", eviction.MaxSampleAhead, eviction.MaxSampleAge), run: observedInTime,
	},
	{
		name: "observe-fresh", input: "the same request again and again",
		expect: "later times, where there are times: a figure is never cached", run: observedFresh,
	},
	{
		name: "observe-after-reclaim", input: "view AFTER_RECLAIM, and a view that does not exist yet",
		expect: "the same signals as before", run: observedInEachView,
	},
	{
		name: "observe-layout", input: "all signals that are offered for it",
		expect: "a layout from the plugin that owns it, none from others", run: observedLayout,
	},
	{
		name: "observe-unknown-signal", input: `the signal "` + string(nobodysSignal) + `"`,
		expect: "no figure for it", run: observedNobodys,
	},
	{
		name: "observe-many-signals", input: "20000 signals that it does not have",
		expect: "an answer without figures, or a refusal", run: observedMany,
	},
	{
		name: "observe-parallel", input: "50 calls at once",
		expect: "each one is answered in full", run: observedInParallel,
	},
	{
		name: "observe-cancelled", input: "30 calls that end before their answer, then one more",
		expect: "an answer to the last one", run: observedAfterCancelled,
	},
}}

func observed(ctx context.Context, t *target) error {
	list, err := t.observeAll(ctx)
	if err != nil {
		return err
	}
	signals := t.offering(eviction.CanObserve)
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
		return fmt.Errorf("%s, without a reason", lines(why))
	case n == len(signals):
		return cannot(lines(why) + " (if it needs a config to find them here, give it: --config FILE)")
	case n > 0:
		return noted(lines(why))
	}
	return nil
}

// eachOnce wants one observation of each signal. Others are left to
// observe-only-asked.
func eachOnce(signals []eviction.Signal, list []eviction.Observation) error {
	for _, signal := range signals {
		n := 0
		for _, o := range list {
			if o.Signal == signal {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%s is answered %d times", signal, n)
		}
	}
	return nil
}

func observedOnlyAsked(ctx context.Context, t *target) error {
	signals := t.offering(eviction.CanObserve)
	for _, asked := range append([][]eviction.Signal{{}, signals}, slices.Collect(slices.Chunk(signals, 1))...) {
		reply, err := t.observe(ctx, eviction.ViewBefore, asked...)
		if err := answered(err); err != nil {
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

func observedWithinBounds(ctx context.Context, t *target) error {
	list, err := t.observeAll(ctx)
	if err != nil {
		return err
	}
	var bad []error
	for _, o := range list {
		if o.State == eviction.Observed && (o.Capacity < 0 || o.Available > o.Capacity) {
			bad = append(bad, fmt.Errorf("%s: available %d, capacity %d", o.Signal, o.Available, o.Capacity))
		}
	}
	return errors.Join(bad...)
}

func observedInTime(ctx context.Context, t *target) error {
	list, err := t.observeAll(ctx)
	if err != nil {
		return err
	}
	now, boot := time.Now(), nodefs.BootNanos()
	var bad []error
	for _, o := range list {
		if o.State != eviction.Observed {
			continue
		}
		if err := eviction.CheckSampleAge(now.Sub(o.Time)); err != nil && !o.Time.IsZero() {
			bad = append(bad, fmt.Errorf("%s: time %s, it is %s: %w", o.Signal, o.Time.Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano), err))
		}
		if err := eviction.CheckSampleAge(time.Duration(boot - o.BootNanos)); err != nil && o.BootNanos != 0 {
			bad = append(bad, fmt.Errorf("%s: boot time %d ns, it is %d: %w", o.Signal, o.BootNanos, boot, err))
		}
	}
	return errors.Join(bad...)
}

// observedFresh waits for each signal to have a later time than at first.
func observedFresh(ctx context.Context, t *target) error {
	first, err := t.observeAll(ctx)
	if err != nil {
		return err
	}
	if others := takenByOthers(t, first); len(others) > 0 {
		return noted(lines(others))
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		list, err := t.observeAll(ctx)
		if err != nil {
			return err
		}
		stale := notLater(first, list)
		if len(stale) == 0 {
			return nil
		}
		if time.Since(begin) > coarse || ctx.Err() != nil {
			return errors.New(lines(stale))
		}
	}
}

// takenByOthers tells of figures that are older than the plugin here: it cannot have
// kept them itself, and reports when somebody else took them.
func takenByOthers(t *target, list []eviction.Observation) []string {
	var all []string
	for _, o := range list {
		if o.State == eviction.Observed && !o.Time.IsZero() && o.BootNanos == 0 && o.Time.Before(t.since) {
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

func observedInEachView(ctx context.Context, t *target) error {
	signals := t.offering(eviction.CanObserve)
	reply, err := t.observe(ctx, eviction.ViewAfterReclaim, signals...)
	if err != nil {
		return err
	}
	if err := eachOnce(signals, reply.Observations); err != nil {
		return fmt.Errorf("view AFTER_RECLAIM: %w", err)
	}
	request := message{}.number(1, 1).number(2, 99).newer()
	for _, signal := range signals {
		request = request.text(3, string(signal))
	}
	err = t.run.options.within(ctx, observeTime, func(ctx context.Context) error {
		_, err := t.call(ctx, "Observe", request)
		return err
	})
	if err != nil {
		return fmt.Errorf("view 99 and fields that do not exist yet: %w", err)
	}
	return nil
}

func observedLayout(ctx context.Context, t *target) error {
	reply, err := t.observe(ctx, eviction.ViewBefore, t.offering(eviction.CanObserve)...)
	switch {
	case err != nil:
		return err
	case t.plugin.OwnsLayout && reply.Layout == nil:
		return errors.New("it owns the layout and reports none")
	case !t.plugin.OwnsLayout && reply.Layout != nil:
		return errors.New("it does not own the layout and reports one")
	}
	return nil
}

func observedNobodys(ctx context.Context, t *target) error {
	return observeNobodys(ctx, t, []eviction.Signal{nobodysSignal})
}

func observedMany(ctx context.Context, t *target) error {
	many := make([]eviction.Signal, 20_000)
	for i := range many {
		many[i] = eviction.Signal(fmt.Sprintf("%s.%d", nobodysSignal, i))
	}
	return observeNobodys(ctx, t, many)
}

func observeNobodys(ctx context.Context, t *target, signals []eviction.Signal) error {
	reply, err := t.observe(ctx, eviction.ViewBefore, signals...)
	if err := answered(err); err != nil {
		return err
	}
	for _, o := range reply.Observations {
		if o.State == eviction.Observed && strings.HasPrefix(string(o.Signal), string(nobodysSignal)) {
			return fmt.Errorf("%s: available %d, capacity %d", o.Signal, o.Available, o.Capacity)
		}
	}
	return nil
}

func observedInParallel(ctx context.Context, t *target) error {
	signals := t.offering(eviction.CanObserve)
	return all(50, func(int) error {
		var reply eviction.ObserveReply
		// They wait for each other, so none has to be done in its own time.
		err := t.run.options.within(ctx, checkTime-time.Second, func(ctx context.Context) (err error) {
			reply, err = t.plugin.Observer.Observe(ctx, eviction.ObserveRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Signals: signals})
			return err
		})
		if err != nil {
			return err
		}
		return eachOnce(signals, reply.Observations)
	})
}

func observedAfterCancelled(ctx context.Context, t *target) error {
	givenUp(ctx, 30, func(ctx context.Context) error {
		_, err := t.observeAll(ctx)
		return err
	})
	list, err := t.observeAll(ctx)
	if err != nil {
		return err
	}
	return eachOnce(t.offering(eviction.CanObserve), list)
}
