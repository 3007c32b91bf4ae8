package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// reclaimTime is the deadline of a step here. The host allows 30 s without progress and 10 min
// in all.
const reclaimTime = 8 * time.Second

// nobodysStep is a step that no plugin has.
const nobodysStep = "no-such-step"

// withoutReclaim says why Reclaim was not checked.
const withoutReclaim = "NOT CHECKED: reclaim frees things on this machine, allow it with --reclaim"

var reclaimGroup = group{name: "reclaim", rpc: "Reclaim", needs: eviction.CanReclaim, unless: reclaimNotAllowed, checks: []check{
	{
		name: "reclaim-unknown-step", input: `the step "` + nobodysStep + `"`,
		expect: "a refusal", run: reclaimedUnknown, gate: true,
	},
	{
		name: "reclaim", input: "each step of each signal, no pods, sources not ready", limit: 2 * reclaimTime,
		expect: "what was freed, at least 0, or a refusal with a text", run: reclaimAll,
	},
	{
		name: "reclaim-again", input: "the first step twice more, the second time both at once", limit: 2 * reclaimTime,
		expect: "answers as before: it may be repeated after any outcome", run: reclaimedAgain,
	},
	{
		name: "reclaim-claims", input: "each step four times, one after the other", limit: 4 * reclaimTime,
		expect: "not the same amount freed each time: what is gone cannot be freed again", run: reclaimedTheSame,
	},
	{
		name: "reclaim-cancelled", input: "calls that end before their answer, then one more", limit: 2 * reclaimTime,
		expect: "an answer to the last one", run: reclaimedAfterCancelled,
	},
}}

func reclaimNotAllowed(t *target) error {
	if !t.run.options.Reclaim {
		return notApplicable(withoutReclaim)
	}
	return nil
}

// eachStep calls do for each step, for the first signal that has it: the same name is
// the same step.
func eachStep(t *target, do func(eviction.Signal, string) error) error {
	done := map[string]bool{}
	for _, spec := range t.plugin.Signals {
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
		return notApplicable("it has no steps")
	}
	return nil
}

func reclaimAll(ctx context.Context, t *target) error {
	return eachStep(t, func(signal eviction.Signal, step string) error {
		return answered(t.reclaim(ctx, signal, step))
	})
}

func reclaimedUnknown(ctx context.Context, t *target) error {
	return refused(t.reclaim(ctx, t.offering(eviction.CanReclaim)[0], nobodysStep))
}

func reclaimedAgain(ctx context.Context, t *target) error {
	if err := reclaimAll(ctx, t); err != nil {
		return err
	}
	return all(2, func(int) error { return reclaimAll(ctx, t) })
}

// reclaimedTheSame goes by figures that are equal: in the meantime the machine may have
// made something else to reclaim.
func reclaimedTheSame(ctx context.Context, t *target) error {
	const times = 4
	return eachStep(t, func(signal eviction.Signal, step string) error {
		var first eviction.Reclaimed
		for i := range times {
			got, err := t.reclaimStep(ctx, signal, step)
			if err != nil {
				return answered(err)
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

func reclaimedAfterCancelled(ctx context.Context, t *target) error {
	err := eachStep(t, func(signal eviction.Signal, step string) error {
		givenUpWithin(ctx, shortly, 4, func(ctx context.Context) error { return t.reclaim(ctx, signal, step) })
		return nil
	})
	if err != nil {
		return err
	}
	return reclaimAll(ctx, t)
}
