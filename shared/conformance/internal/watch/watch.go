// Package watch checks Watch.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/describe"
	"github.com/evictd/evictd/shared/conformance/internal/machine"
	"github.com/evictd/evictd/shared/conformance/internal/observe"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// watchTime is the time for which an idle Watch is observed.
	watchTime = 1500 * time.Millisecond
	// maxWakes is the number of wakes per second that the host accepts from a plugin.
	maxWakes = 20
	// endTime limits the time until a replaced call has ended.
	endTime = time.Second
)

// Never is a threshold that is never met, always one that is always met.
var (
	Never  = eviction.Threshold{Amount: 1}
	always = eviction.Threshold{Fraction: 1}
)

// Group has the checks of Watch.
var Group = check.Group{Name: "watch", RPC: "Watch", Needs: eviction.CanWatch, Checks: []check.Check{
	{Name: "watch", Input: fmt.Sprintf("thresholds that are never met, for %s", watchTime), Gate: true, Expect: "the stream stays open until it is cancelled", Run: watchOpen},
	{Name: "watch-quiet", Input: fmt.Sprintf("thresholds that are never met, for %s", watchTime), Expect: fmt.Sprintf("at most %d wakes a second", maxWakes), Run: check.Later(quiet)},
	{
		Name: "watch-only-asked", Input: "a threshold for one signal that is always met, then for each one",
		Expect: fmt.Sprintf("wakes for the signals that were asked for, at most %d a second", maxWakes), Run: watchOnlyAsked,
	},
	{
		Name: "watch-replaced", Input: "a second call while the first one is open",
		Expect: fmt.Sprintf("the first one ends with ABORTED within %s, the second stays open", endTime), Run: watchReplaced,
	},
	{Name: "watch-empty", Input: "no thresholds, and one for a signal that it does not have", Expect: "the stream stays open, or a refusal", Run: watchEmpty},
	{Name: "watch-cancelled", Input: "30 calls that end at once, then one more", Expect: "the last one stays open", Run: watchAfterCancelled},
	{
		Name: "watch-wakes", Input: fmt.Sprintf("a threshold of memory.available, %d MiB away, and %d MiB taken", machine.BallastBytes>>20, 3*machine.BallastBytes>>20),
		Expect: fmt.Sprintf("a wake within %s", wakeTime), Run: watchWakes, Limit: (wakeAttempts + 1) * wakeTime,
	},
	{Name: "watch-beside-calls", Input: "other calls while it is open", Expect: "they are answered", Run: watchBesideCalls},
}}

// Request returns a request with the same threshold for each of signals.
func Request(signals []eviction.Signal, at eviction.Threshold) eviction.WatchRequest {
	var req eviction.WatchRequest
	for _, signal := range signals {
		req.Thresholds = append(req.Thresholds, eviction.WatchThreshold{Signal: signal, Threshold: at})
	}
	return req
}

// watched holds the wakes of a Watch and how it ended.
type watched struct {
	wakes []eviction.Wake
	// err is the error with which it ended by itself, nil if it stayed open until cancelled.
	err error
}

func (w *watched) flood(d time.Duration) error {
	if most := int(d.Seconds() * maxWakes); len(w.wakes) > most {
		return fmt.Errorf("%d wakes in %s, the last one of %s because of %q", len(w.wakes), d, w.wakes[len(w.wakes)-1].Signal, w.wakes[len(w.wakes)-1].Cause)
	}
	return nil
}

func watchOpen(ctx context.Context, t *check.Target) error {
	w := call(ctx, t, Request(t.Offering(eviction.CanWatch), Never), watchTime)
	t.Kept = w
	return w.err
}

func quiet(_ *check.Target, w *watched) error { return w.flood(watchTime) }

func watchOnlyAsked(ctx context.Context, t *check.Target) error {
	signals := t.Offering(eviction.CanWatch)
	const each = 400 * time.Millisecond
	for _, asked := range [][]eviction.Signal{signals[:1], signals} {
		w := call(ctx, t, Request(asked, always), each)
		if w.err != nil {
			return w.err
		}
		for _, wake := range w.wakes {
			if !slices.Contains(asked, wake.Signal) {
				return fmt.Errorf("asked for %q, woken for %q", asked, wake.Signal)
			}
		}
		// Allow half a second's worth more wakes: a burst at the start is no flood.
		if err := w.flood(each + 500*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func watchReplaced(ctx context.Context, t *check.Target) error {
	req := Request(t.Offering(eviction.CanWatch), Never)
	first, stopFirst := Open(ctx, t, req, func(eviction.Wake) {})
	defer stopFirst()
	// Wait, so that it is certain which of the two calls is the newer.
	if err := passed(ctx, t); err != nil {
		return err
	}
	second, stopSecond := Open(ctx, t, req, func(eviction.Wake) {})
	defer stopSecond()
	if err := passed(ctx, t); err != nil {
		return err
	}
	late := time.NewTimer(t.Patient(endTime))
	defer late.Stop()
	select {
	case err := <-second:
		return fmt.Errorf("the second one ended with %v", err) //nolint:errorlint // it may be nil
	case err := <-first:
		if !errors.Is(err, eviction.ErrRefused) {
			return fmt.Errorf("the first one ended with %v", err) //nolint:errorlint // it may be nil
		}
	case <-late.C:
		return check.Slow("the first one is still open")
	}
	if err := passed(ctx, t); err != nil {
		return err
	}
	select {
	case err := <-second:
		return fmt.Errorf("the second one ended with %v", err) //nolint:errorlint // it may be nil
	default:
		return nil
	}
}

func watchEmpty(ctx context.Context, t *check.Target) error {
	const each = 200 * time.Millisecond
	for _, req := range []eviction.WatchRequest{{}, Request([]eviction.Signal{observe.NobodysSignal}, Never)} {
		w := call(ctx, t, req, each)
		if err := check.Answered(w.err); err != nil {
			return err
		}
		if err := w.flood(each); err != nil {
			return err
		}
	}
	return nil
}

func watchAfterCancelled(ctx context.Context, t *check.Target) error {
	req := Request(t.Offering(eviction.CanWatch), Never)
	for range 30 {
		_ = check.Abandoned(ctx, check.Shortly, func(ctx context.Context) error { return t.Plugin.Watcher.Watch(ctx, req, func(eviction.Wake) {}) })
	}
	// Wait, so that it is certain which call is the newest.
	if err := passed(ctx, t); err != nil {
		return err
	}
	return call(ctx, t, req, endTime/4).err
}

func watchBesideCalls(ctx context.Context, t *check.Target) error {
	_, stop := Open(ctx, t, Request(t.Offering(eviction.CanWatch), always), func(eviction.Wake) {})
	defer stop()
	if err := passed(ctx, t); err != nil {
		return err
	}
	_, err := describe.Behavior(ctx, t)
	return check.Answered(err)
}

// call keeps a Watch open for d.
func call(ctx context.Context, t *check.Target, req eviction.WatchRequest, d time.Duration) *watched {
	w := &watched{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Cancel instead of setting a deadline, which the plugin would see.
	defer time.AfterFunc(d, cancel).Stop()
	err := t.Plugin.Watcher.Watch(ctx, req, func(wake eviction.Wake) { w.wakes = append(w.wakes, wake) })
	if ctx.Err() == nil {
		w.err = cmp.Or(err, errors.New("the stream ended without an error"))
	}
	return w
}

// Open keeps a Watch open until stop is called. Its error is sent to ended.
func Open(ctx context.Context, t *check.Target, req eviction.WatchRequest, woken func(eviction.Wake)) (ended <-chan error, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	end := make(chan error, 1)
	var open sync.WaitGroup
	open.Go(func() { end <- t.Plugin.Watcher.Watch(ctx, req, woken) })
	return end, func() {
		cancel()
		open.Wait()
	}
}

// passed waits until the plugin must have received the calls begun before.
func passed(ctx context.Context, t *check.Target) error {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return t.Describe(ctx)
}
