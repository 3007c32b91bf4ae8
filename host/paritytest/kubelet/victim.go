package kubelet

import (
	"context"
	"slices"

	"github.com/evictd/evictd/host/internal/replay"
)

// JudgeButVictims is Judge for an evictd that has others go under pressure than
// the kubelet would. Whether somebody goes, and for what, must be the same.
func (k *Kubelet) JudgeButVictims(ctx context.Context, s *replay.Scenario, r *replay.Replay) (*replay.Difference, *replay.Decisions, error) {
	got := anonymous(r.Decisions)
	want, err := k.Walk(ctx, s, func(at *Step) error {
		if at.Index < len(got.Steps) && len(got.Steps[at.Index].Outcomes) == 1 {
			wanted := outcomes(got.Steps[at.Index].Outcomes)
			at.More(maxPasses, nil, func() bool {
				return replay.Compare(s, wanted, anonymous(outcomes(at.Decision.Outcomes))) == nil
			})
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, nil, err
	}
	return replay.Compare(s, got, anonymous(want)), want, nil
}

// anonymous is d without all that comes from who the victims are.
func anonymous(d *replay.Decisions) *replay.Decisions {
	out := *d
	out.Steps = slices.Clone(d.Steps)
	for i := range out.Steps {
		var outcomes []replay.Outcome
		for _, o := range out.Steps[i].Outcomes {
			outcomes = append(outcomes, withoutVictims(o))
		}
		out.Steps[i].Outcomes = outcomes
	}
	return &out
}

func withoutVictims(o replay.Outcome) replay.Outcome {
	out := replay.Outcome{Signals: o.Signals, ReclaimCalls: o.ReclaimCalls, CleanupWaitSeconds: o.CleanupWaitSeconds}
	for _, e := range o.Evictions {
		out.Evictions = append(out.Evictions, replay.Eviction{IsEvicted: e.IsEvicted, Phase: e.Phase, Reason: e.Reason})
	}
	for _, e := range o.Events {
		out.Events = append(out.Events, replay.Event{Kind: e.Kind, Type: e.Type, Reason: e.Reason})
	}
	for range o.Returned {
		out.Returned = append(out.Returned, "somebody")
	}
	return out
}
