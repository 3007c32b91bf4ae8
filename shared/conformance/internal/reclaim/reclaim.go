// Package reclaim checks Reclaim.
package reclaim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
)

// reclaimTime is the deadline of a step here. The host allows 30 s without progress, 10 min in all.
const reclaimTime = 8 * time.Second

// nobodysStep is a step that no plugin has.
const nobodysStep = "no-such-step"

// Forbidden is the reason to skip the checks without permission to reclaim.
const Forbidden = "NOT CHECKED: reclaim frees things on this machine, allow it with --reclaim"

// Group has the checks of Reclaim.
var Group = check.Group{Name: "reclaim", RPC: "Reclaim", Needs: eviction.CanReclaim, Unless: notAllowed, Checks: []check.Check{
	{Name: "reclaim-unknown-step", Input: `the step "` + nobodysStep + `"`, Expect: "a refusal", Run: reclaimedUnknown, Gate: true},
	{
		Name: "reclaim", Input: "each step of each signal, no pods, sources not ready", Limit: 2 * reclaimTime,
		Expect: "what was freed, at least 0, or a refusal with a text", Run: reclaimAll,
	},
	{
		Name: "reclaim-again", Input: "the first step twice more, the second time both at once", Limit: 2 * reclaimTime,
		Expect: "answers as before: it may be repeated after any outcome", Run: reclaimedAgain,
	},
	{
		Name: "reclaim-claims", Input: "each step four times, one after the other", Limit: 4 * reclaimTime,
		Expect: "not the same amount freed each time: what is gone cannot be freed again", Run: reclaimedTheSame,
	},
	{Name: "reclaim-cancelled", Input: "calls that end before their answer, then one more", Limit: 2 * reclaimTime, Expect: "an answer to the last one", Run: reclaimedAfterCancelled},
}}

func notAllowed(t *check.Target) string {
	if t.MayReclaim {
		return ""
	}
	return Forbidden
}

// eachStep calls do for each step and the first signal that lists it: the same name in another
// signal is the same step.
func eachStep(t *check.Target, do func(eviction.Signal, string) error) error {
	done := map[string]bool{}
	for _, spec := range t.Plugin.Signals {
		for _, step := range spec.ReclaimSteps {
			if done[step.Name] {
				continue
			}
			done[step.Name] = true
			if err := do(spec.Signal, step.Name); err != nil {
				return fmt.Errorf("%s of %s: %w", step.Name, spec.Signal, err)
			}
		}
	}
	if len(done) == 0 {
		return check.NotApplicable("it has no steps")
	}
	return nil
}

func reclaimAll(ctx context.Context, t *check.Target) error {
	return eachStep(t, func(signal eviction.Signal, step string) error {
		_, err := call(ctx, t, signal, step)
		return check.Answered(err)
	})
}

func reclaimedUnknown(ctx context.Context, t *check.Target) error {
	_, err := call(ctx, t, t.Offering(eviction.CanReclaim)[0], nobodysStep)
	return check.Refused(err)
}

func reclaimedAgain(ctx context.Context, t *check.Target) error {
	if err := reclaimAll(ctx, t); err != nil {
		return err
	}
	return check.All(2, func(int) error { return reclaimAll(ctx, t) })
}

// reclaimedTheSame fails a step that reports equal amounts every time. Different amounts are
// plausible: the machine may have produced something new to reclaim.
func reclaimedTheSame(ctx context.Context, t *check.Target) error {
	const times = 4
	return eachStep(t, func(signal eviction.Signal, step string) error {
		var first eviction.Reclaimed
		for i := range times {
			got, err := call(ctx, t, signal, step)
			if err != nil {
				return check.Answered(err)
			}
			if i == 0 {
				first = got
			}
			if got.Bytes != first.Bytes || got.Inodes != first.Inodes || got.Bytes+got.Inodes == 0 {
				return nil
			}
		}
		return fmt.Errorf("%d bytes and %d inodes freed in each of %d calls", first.Bytes, first.Inodes, times)
	})
}

func reclaimedAfterCancelled(ctx context.Context, t *check.Target) error {
	err := eachStep(t, func(signal eviction.Signal, step string) error {
		check.GivenUpWithin(ctx, check.Shortly, 4, func(ctx context.Context) error {
			_, err := call(ctx, t, signal, step)
			return err
		})
		return nil
	})
	if err != nil {
		return err
	}
	return reclaimAll(ctx, t)
}

// call runs a step, judges the amounts that it reports on the way and returns what it reclaimed.
func call(ctx context.Context, t *check.Target, signal eviction.Signal, step string) (released eviction.Reclaimed, err error) {
	var bad error
	check := func(r eviction.Reclaimed) {
		switch {
		case bad != nil:
		case r.Bytes < 0 || r.Inodes < 0:
			bad = fmt.Errorf("freed %d bytes and %d inodes", r.Bytes, r.Inodes)
		case r.Bytes < released.Bytes || r.Inodes < released.Inodes:
			bad = fmt.Errorf("freed %d bytes and %d inodes since the call began, after it had been %d and %d", r.Bytes, r.Inodes, released.Bytes, released.Inodes)
		}
		released = r
	}
	err = t.Within(ctx, reclaimTime, func(ctx context.Context) error {
		got, err := t.Plugin.Reclaimer.Reclaim(ctx, eviction.ReclaimRequest{Pass: 1, Signal: signal, Step: step}, check)
		if err == nil {
			check(got)
		}
		return err
	})
	if err = errors.Join(err, bad); err == nil {
		t.Reclaimed(released)
	}
	return released, err
}
