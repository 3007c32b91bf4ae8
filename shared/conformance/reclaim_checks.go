package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// reclaimTime is what a step gets here. The host gives it 30 s without progress
// and 10 min in all.
const reclaimTime = 8 * time.Second

// nobodysStep is a step that no plugin has.
const nobodysStep = "no-such-step"

// withoutReclaim is why nothing is known of Reclaim.
const withoutReclaim = "NOT CHECKED: reclaim frees things on this machine, allow it with --reclaim"

func reclaimChecks() []check {
	checks := []check{
		{
			name: "reclaim-unknown-step", rpc: "Reclaim", input: `the step "` + nobodysStep + `"`,
			expect: "a refusal", run: reclaimedUnknown, gate: true,
		},
		{
			name: "reclaim", rpc: "Reclaim", input: "each step of each signal, no pods, sources not ready", limit: 2 * reclaimTime,
			expect: "what was freed, at least 0, or a refusal with a text", run: reclaimed,
		},
		{
			name: "reclaim-again", rpc: "Reclaim", input: "the first step twice more, the second time both at once", limit: 2 * reclaimTime,
			expect: "answers as before: it may be repeated after any outcome", run: reclaimedAgain,
		},
		{
			name: "reclaim-claims", rpc: "Reclaim", input: "each step four times, one after the other", limit: 4 * reclaimTime,
			expect: "not the same amount freed each time: what is gone cannot be freed again", run: reclaimedTheSame,
		},
		{
			name: "reclaim-cancelled", rpc: "Reclaim", input: "calls that end before their answer, then one more", limit: 2 * reclaimTime,
			expect: "an answer to the last one", run: reclaimedAfterCancelled,
		},
	}
	for i := range checks {
		run := checks[i].run
		checks[i].needs = eviction.CanReclaim
		checks[i].run = func(ctx context.Context, s *subject) error {
			if !s.options.Reclaim {
				return notApplicable(withoutReclaim)
			}
			return run(ctx, s)
		}
	}
	return checks
}

// reclaim runs a step and judges all that it says on the way.
func (s *subject) reclaim(ctx context.Context, signal eviction.Signal, step string) error {
	_, err := s.reclaimStep(ctx, signal, step)
	return err
}

// reclaimStep is reclaim, with what was freed.
func (s *subject) reclaimStep(ctx context.Context, signal eviction.Signal, step string) (freed eviction.Reclaimed, err error) {
	var bad error
	check := func(r eviction.Reclaimed) {
		switch {
		case bad != nil:
		case r.Bytes < 0 || r.Inodes < 0:
			bad = fmt.Errorf("freed %d bytes and %d inodes", r.Bytes, r.Inodes)
		case r.Bytes < freed.Bytes || r.Inodes < freed.Inodes:
			bad = fmt.Errorf("freed %d bytes and %d inodes since the call began, after it had been %d and %d", r.Bytes, r.Inodes, freed.Bytes, freed.Inodes)
		}
		freed = r
	}
	err = s.options.within(ctx, reclaimTime, func(ctx context.Context) error {
		got, err := s.plugin.Reclaimer.Reclaim(ctx, eviction.ReclaimRequest{Pass: 1, Signal: signal, Step: step}, check)
		if err == nil {
			check(got)
		}
		return err
	})
	return freed, errors.Join(err, bad)
}

// eachStep calls do for each step of each signal.
func (s *subject) eachStep(do func(eviction.Signal, string) error) error {
	steps := 0
	for _, spec := range s.plugin.Signals {
		for _, step := range spec.ReclaimSteps {
			steps++
			if err := do(spec.Signal, step.Name); err != nil {
				return fmt.Errorf("%s of %s: %w", step.Name, spec.Signal, err)
			}
		}
	}
	if steps == 0 {
		return notApplicable("it has no steps")
	}
	return nil
}

func (s *subject) reclaimAll(ctx context.Context) error {
	done := map[string]bool{} // the same name is the same step
	return s.eachStep(func(signal eviction.Signal, step string) error {
		if done[step] {
			return nil
		}
		done[step] = true
		return answered(s.reclaim(ctx, signal, step))
	})
}

func reclaimedUnknown(ctx context.Context, s *subject) error {
	return refused(s.reclaim(ctx, s.offering(eviction.CanReclaim)[0], nobodysStep))
}

func reclaimed(ctx context.Context, s *subject) error { return s.reclaimAll(ctx) }

func reclaimedAgain(ctx context.Context, s *subject) error {
	if err := s.reclaimAll(ctx); err != nil {
		return err
	}
	return all(2, func(int) error { return s.reclaimAll(ctx) })
}

// reclaimedTheSame goes by figures that are equal: in the meantime the machine may have
// made something else to be freed.
func reclaimedTheSame(ctx context.Context, s *subject) error {
	const times = 4
	done := map[string]bool{}
	return s.eachStep(func(signal eviction.Signal, step string) error {
		if done[step] {
			return nil
		}
		done[step] = true
		var first eviction.Reclaimed
		for i := range times {
			got, err := s.reclaimStep(ctx, signal, step)
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

func reclaimedAfterCancelled(ctx context.Context, s *subject) error {
	err := s.eachStep(func(signal eviction.Signal, step string) error {
		_ = all(4, func(int) error {
			return shortly(ctx, func(ctx context.Context) error { return s.reclaim(ctx, signal, step) })
		})
		return nil
	})
	if err != nil {
		return err
	}
	return s.reclaimAll(ctx)
}
