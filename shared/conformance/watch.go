package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// watchTime is the time for which an idle Watch is observed.
	watchTime = 1500 * time.Millisecond
	// maxWakes a second is what the host takes of a plugin.
	maxWakes = 20
	// endTime bounds the end of a call that was replaced.
	endTime = time.Second
)

// Thresholds that are not met, and that always are.
var (
	never  = eviction.Threshold{Amount: 1}
	always = eviction.Threshold{Fraction: 1}
)

var watchGroup = group{name: "watch", rpc: "Watch", needs: eviction.CanWatch, checks: []check{
	{
		name: "watch", input: fmt.Sprintf("thresholds that are never met, for %s", watchTime), gate: true,
		expect: "the stream stays open until it is cancelled", run: watchOpen,
	},
	{
		name: "watch-quiet", input: fmt.Sprintf("thresholds that are never met, for %s", watchTime),
		expect: fmt.Sprintf("at most %d wakes a second", maxWakes), run: watchQuiet,
	},
	{
		name: "watch-only-asked", input: "a threshold for one signal that is always met, then for each one",
		expect: fmt.Sprintf("wakes for the signals that were asked for, at most %d a second", maxWakes), run: watchOnlyAsked,
	},
	{
		name: "watch-replaced", input: "a second call while the first one is open",
		expect: fmt.Sprintf("the first one ends with ABORTED within %s, the second stays open", endTime), run: watchReplaced,
	},
	{
		name: "watch-empty", input: "no thresholds, and one for a signal that it does not have",
		expect: "the stream stays open, or a refusal", run: watchEmpty,
	},
	{
		name: "watch-cancelled", input: "30 calls that end at once, then one more",
		expect: "the last one stays open", run: watchAfterCancelled,
	},
	{
		name: "watch-wakes", input: fmt.Sprintf("a threshold of memory.available, %d MiB away, and %d MiB taken", ballastBytes>>20, 3*ballastBytes>>20),
		expect: fmt.Sprintf("a wake within %s", wakeTime), run: watchWakes, limit: (wakeAttempts + 1) * wakeTime,
	},
	{
		name: "watch-beside-calls", input: "other calls while it is open",
		expect: "they are answered", run: watchBesideCalls,
	},
}}

func watchRequest(signals []eviction.Signal, at eviction.Threshold) eviction.WatchRequest {
	var req eviction.WatchRequest
	for _, signal := range signals {
		req.Thresholds = append(req.Thresholds, eviction.WatchThreshold{Signal: signal, Threshold: at})
	}
	return req
}

// watched holds the wakes of a Watch and how it ended.
type watched struct {
	mu    sync.Mutex
	wakes []eviction.Wake
	// err with which it ended by itself, nil if it was open until it was cancelled.
	err error
}

func (w *watched) flood(d time.Duration) error {
	if most := int(d.Seconds() * maxWakes); len(w.wakes) > most {
		return fmt.Errorf("%d wakes in %s, the last one of %s because of %q", len(w.wakes), d, w.wakes[len(w.wakes)-1].Signal, w.wakes[len(w.wakes)-1].Cause)
	}
	return nil
}

func watchOpen(ctx context.Context, t *target) error {
	t.watched = t.watch(ctx, watchRequest(t.offering(eviction.CanWatch), never), watchTime)
	return t.watched.err
}

func watchQuiet(_ context.Context, t *target) error {
	if t.watched == nil {
		return errAnew
	}
	return t.watched.flood(watchTime)
}

func watchOnlyAsked(ctx context.Context, t *target) error {
	signals := t.offering(eviction.CanWatch)
	const each = 400 * time.Millisecond
	for _, asked := range [][]eviction.Signal{signals[:1], signals} {
		w := t.watch(ctx, watchRequest(asked, always), each)
		if w.err != nil {
			return w.err
		}
		for _, wake := range w.wakes {
			if !slices.Contains(asked, wake.Signal) {
				return fmt.Errorf("asked for %q, woken for %q", asked, wake.Signal)
			}
		}
		// A burst at the start is no flood.
		if err := w.flood(each + 500*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func watchReplaced(ctx context.Context, t *target) error {
	req := watchRequest(t.offering(eviction.CanWatch), never)
	first, stopFirst := t.watching(ctx, req, func(eviction.Wake) {})
	defer stopFirst()
	// Of two calls at once nobody knows which one is the newer.
	if err := t.passed(ctx); err != nil {
		return err
	}
	second, stopSecond := t.watching(ctx, req, func(eviction.Wake) {})
	defer stopSecond()
	if err := t.passed(ctx); err != nil {
		return err
	}
	late := time.NewTimer(t.run.options.patient(endTime))
	defer late.Stop()
	select {
	case err := <-second:
		return fmt.Errorf("the second one ended with %v", err) //nolint:errorlint // it may be nil
	case err := <-first:
		if !errors.Is(err, eviction.ErrRefused) {
			return fmt.Errorf("the first one ended with %v", err) //nolint:errorlint // it may be nil
		}
	case <-late.C:
		return slow{errors.New("the first one is still open")}
	}
	if err := t.passed(ctx); err != nil {
		return err
	}
	select {
	case err := <-second:
		return fmt.Errorf("the second one ended with %v", err) //nolint:errorlint // it may be nil
	default:
		return nil
	}
}

func watchEmpty(ctx context.Context, t *target) error {
	const each = 200 * time.Millisecond
	for _, req := range []eviction.WatchRequest{{}, watchRequest([]eviction.Signal{nobodysSignal}, never)} {
		w := t.watch(ctx, req, each)
		if err := answered(w.err); err != nil {
			return err
		}
		if err := w.flood(each); err != nil {
			return err
		}
	}
	return nil
}

func watchAfterCancelled(ctx context.Context, t *target) error {
	req := watchRequest(t.offering(eviction.CanWatch), never)
	for range 30 {
		_ = abandoned(ctx, shortly, func(ctx context.Context) error { return t.plugin.Watcher.Watch(ctx, req, func(eviction.Wake) {}) })
	}
	// Of calls at the same time nobody knows which one is the newest.
	if err := t.passed(ctx); err != nil {
		return err
	}
	return t.watch(ctx, req, endTime/4).err
}

func watchBesideCalls(ctx context.Context, t *target) error {
	_, stop := t.watching(ctx, watchRequest(t.offering(eviction.CanWatch), always), func(eviction.Wake) {})
	defer stop()
	if err := t.passed(ctx); err != nil {
		return err
	}
	_, err := t.behavior(ctx)
	return answered(err)
}
