package kubelet

import (
	"context"

	"github.com/evictd/evictd/host/internal/replay"
)

// patience is how often a pass is made again before an outcome counts as one that
// the kubelet cannot come to. One threshold of a dozen and one pod of a hundred
// that rank equal can be what chance has to pick.
const patience = 2000

// Judge returns where what others decided in s differs from all that the kubelet
// may decide, nil if nowhere, and what the kubelet decided.
func (k *Kubelet) Judge(ctx context.Context, s *replay.Scenario, got *replay.Decisions) (*replay.Difference, *replay.Decisions, error) {
	want, err := k.Walk(ctx, s, func(i int, d *replay.StepDecision, more More) error {
		if i < len(got.Steps) && len(got.Steps[i].Outcomes) == 1 {
			Find(s, &got.Steps[i].Outcomes[0], d, more)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, nil, err
	}
	return replay.Compare(s, got, want), want, nil
}

// Decide returns what the kubelet decides in s, each step with what it came to
// in as many tries.
func (k *Kubelet) Decide(ctx context.Context, s *replay.Scenario, tries int) (*replay.Decisions, error) {
	return k.Walk(ctx, s, func(_ int, _ *replay.StepDecision, more More) error {
		more(tries-1, nil, func() bool { return false })
		return ctx.Err()
	})
}

// Find looks for an outcome and reports whether the kubelet may come to it.
func Find(s *replay.Scenario, o *replay.Outcome, d *replay.StepDecision, more More) bool {
	wanted := &replay.Decisions{Steps: []replay.StepDecision{{Outcomes: []replay.Outcome{*o}}}}
	found := func() bool {
		return replay.Compare(s, wanted, &replay.Decisions{Steps: []replay.StepDecision{{Outcomes: d.Outcomes}}}) == nil
	}
	more(patience, victims(o), found)
	return found()
}

func victims(o *replay.Outcome) []string {
	var uids []string
	for _, e := range o.Evictions {
		uids = append(uids, e.UID)
	}
	return uids
}
