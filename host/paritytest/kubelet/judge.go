package kubelet

import (
	"context"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/why/replay"
)

// maxPasses bounds the repetitions of a pass before an outcome counts as impossible for the
// kubelet. Chance may have to pick one threshold of a dozen and one pod of a hundred of equal rank.
const maxPasses = 2000

// Judge returns the first difference between evictd's actions in s and all that the kubelet may do,
// nil for none, and the kubelet's decisions. It compares whole rankings, not only the victims.
func (k *Kubelet) Judge(ctx context.Context, s *replay.Scenario, r *replay.Replay) (*replay.Difference, *replay.Decisions, error) {
	var ranking *replay.Difference
	got := r.Decisions
	want, err := k.Walk(ctx, s, func(at *Step) error {
		if at.Index < len(got.Steps) && len(got.Steps[at.Index].Outcomes) == 1 {
			Find(s, &got.Steps[at.Index].Outcomes[0], at)
			if ranking == nil {
				ranking = compareRanking(&r.Passes[at.Index], at)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, nil, err
	}
	d := replay.Compare(s, got, want)
	if d == nil || ranking != nil && ranking.Step < d.Step {
		d = ranking
	}
	return d, want, nil
}

// JudgeButVictims is like Judge, for an evictd that may choose other victims under pressure.
// Whether a pod is evicted, and for what, must be the same.
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

func compareRanking(pass *loop.PassResult, at *Step) *replay.Difference {
	acted := pass.Acted()
	if acted == nil || len(pass.Order) == 0 {
		return nil
	}
	uids := make([]string, len(pass.Order))
	for i, at := range pass.Order {
		uids[i] = pass.Candidates[at].UID
	}
	signal := string(acted.Signal)
	first, second, found := at.Misplaced(signal, uids)
	if !found {
		return nil
	}
	return &replay.Difference{
		Step: at.Index, Field: "ranking for " + signal, Got: strings.Join(uids, " "), Want: second + " before " + first,
	}
}

// Find looks for an outcome and reports whether the kubelet may reach it.
func Find(s *replay.Scenario, o *replay.Outcome, at *Step) bool {
	wanted := outcomes([]replay.Outcome{*o})
	found := func() bool { return replay.Compare(s, wanted, outcomes(at.Decision.Outcomes)) == nil }
	at.More(maxPasses, victims(o), found)
	return found()
}

func outcomes(all []replay.Outcome) *replay.Decisions {
	return &replay.Decisions{Steps: []replay.StepDecision{{Outcomes: all}}}
}

func victims(o *replay.Outcome) []string {
	var uids []string
	for _, e := range o.Evictions {
		uids = append(uids, e.UID)
	}
	return uids
}

// anonymous returns d without everything that depends on who the victims are.
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
