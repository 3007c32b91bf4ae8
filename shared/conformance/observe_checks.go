package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// coarse is the longest tick of a clock that stamps samples.
	coarse = 1500 * time.Millisecond
	// nobodysSignal is a signal that no plugin serves.
	nobodysSignal eviction.Signal = "conformance.example/nobodys"
)

func observeChecks() []check {
	checks := []check{
		{
			name: "observe", rpc: "Observe", input: "all signals that are offered for it", gate: true,
			expect: fmt.Sprintf("within %s each signal once, as observed or absent", observeTime), run: observed,
		},
		{
			name: "observe-only-asked", rpc: "Observe", input: "one signal at a time, and none",
			expect: "nothing that was not asked for", run: observedOnlyAsked,
		},
		{
			name: "observe-bounds", rpc: "Observe", input: "all signals that are offered for it",
			expect: "capacity at least 0, available at most capacity", run: observedWithinBounds,
		},
		{
			name: "observe-time", rpc: "Observe", input: "all signals that are offered for it",
			expect: fmt.Sprintf("no time, or a time at most %s ahead and %s old, by either clock", eviction.MaxSampleAhead, eviction.MaxSampleAge), run: observedInTime,
		},
		{
			name: "observe-fresh", rpc: "Observe", input: "the same request again and again",
			expect: "later times, where there are times: a figure is never cached", run: observedFresh,
		},
		{
			name: "observe-after-reclaim", rpc: "Observe", input: "view AFTER_RECLAIM, and a view that does not exist yet",
			expect: "the same signals as before", run: observedInEachView,
		},
		{
			name: "observe-layout", rpc: "Observe", input: "all signals that are offered for it",
			expect: "a layout from the plugin that owns it, none from others", run: observedLayout,
		},
		{
			name: "observe-unknown-signal", rpc: "Observe", input: `the signal "` + string(nobodysSignal) + `"`,
			expect: "no figure for it", run: observedNobodys,
		},
		{
			name: "observe-many-signals", rpc: "Observe", input: "20000 signals that it does not have",
			expect: "an answer without figures, or a refusal", run: observedMany,
		},
		{
			name: "observe-parallel", rpc: "Observe", input: "50 calls at once",
			expect: "each one is answered in full", run: observedInParallel,
		},
		{
			name: "observe-cancelled", rpc: "Observe", input: "30 calls that end before their answer, then one more",
			expect: "an answer to the last one", run: observedAfterCancelled,
		},
	}
	for i := range checks {
		checks[i].needs = eviction.CanObserve
	}
	return checks
}

func (t *target) observe(ctx context.Context, view eviction.View, signals ...eviction.Signal) (eviction.ObserveReply, error) {
	var reply eviction.ObserveReply
	err := t.options.within(ctx, observeTime, func(ctx context.Context) (err error) {
		reply, err = t.plugin.Observer.Observe(ctx, eviction.ObserveRequest{PassView: eviction.PassView{Pass: 1, View: view}, Signals: signals})
		return err
	})
	return reply, err
}

func (t *target) observeAll(ctx context.Context) ([]eviction.Observation, error) {
	reply, err := t.observe(ctx, eviction.ViewBefore, t.offering(eviction.CanObserve)...)
	return reply.Observations, err
}
