package loop

import (
	"context"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// hostRanker is the name under which the host's own comparators rank.
const hostRanker = "evictd"

// A ranking is the order in which pods may go, who made it and from what.
type ranking struct {
	signal   eviction.Signal
	order    []eviction.Ranked
	by       string
	measured map[string]eviction.Measurement
	// measuring is how long it took to measure.
	measuring time.Duration
}

// rank measures the candidates and asks the ranker in charge for an order, then
// the fallbacks, then sorts by itself: an eviction never waits for a plugin to
// be well.
func (l *Loop) rank(ctx context.Context, p *pass, t policy.Threshold, o eviction.Observation, candidates []pods.Pod) ranking {
	req := eviction.RankRequest{
		Pass: p.at.pass, Signal: t.Signal, Unit: t.Definition().Unit, Threshold: t.Wire(),
		Available: o.Available, Capacity: o.Capacity, Shortfall: policy.Shortfall(t, o), Hard: t.Hard(),
	}
	rankers := p.roster.Providers(t.Signal, eviction.CanRank)
	started := time.Now()
	m := &measuring{loop: l, at: p.at, signal: t.Signal, detail: eviction.DetailPod, got: make(map[string]eviction.Measurement, len(candidates))}
	first := m.run(ctx, p.roster.Providers(t.Signal, eviction.CanMeasure), candidates, rankers, req)
	l.remember(t.Signal, m.got, candidates)
	r := ranking{signal: t.Signal, by: hostRanker, measured: m.got, measuring: m.done.Sub(started)}
	if len(candidates) == 0 {
		return r
	}
	rows := sync.OnceValue(func() []eviction.Candidate { return rowsOfCandidates(candidates, m.got) })
	fallback := func() []eviction.Ranked { return rank.Kubelet(rows(), t.Signal) }
	for n, i := range rankers {
		order, err := first.Order, first.Err
		if n > 0 || order == nil && err == nil {
			req.Candidates = rows()
			order, err = i.Plugin.Ranker.Rank(ctx, req)
		}
		if err != nil {
			l.Metrics.CallFailed(i.Name, "rank", err)
			l.Log.Error("ranking failed, falling back", "plugin", i.Name, "signal", t.Signal, "error", err)
			continue
		}
		r.order, r.by = l.withLeftOut(order, len(candidates), fallback, t), i.Name
		return r
	}
	r.order = fallback()
	return r
}

func rowsOfCandidates(candidates []pods.Pod, measured map[string]eviction.Measurement) []eviction.Candidate {
	rows := make([]eviction.Candidate, len(candidates))
	for i := range candidates {
		row := &rows[i].Pod
		*row = candidates[i].Row
		row.Containers = nil // as in rowsOf
		rows[i].Measurement = measured[row.UID]
	}
	return rows
}

// withLeftOut appends the candidates that a ranker left out, in the kubelet's
// order, unless its veto stands.
func (l *Loop) withLeftOut(order []eviction.Ranked, candidates int, fallback func() []eviction.Ranked, t policy.Threshold) []eviction.Ranked {
	if len(order) == candidates || l.Settings.RankVeto.standsFor(t) {
		return order
	}
	ranked := make(map[string]bool, len(order))
	for _, r := range order {
		ranked[r.UID] = true
	}
	for _, r := range fallback() {
		if !ranked[r.UID] {
			order = append(order, r)
		}
	}
	return order
}
