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
	started := time.Now()
	measured := l.measure(ctx, p.roster, p.at, t.Signal, eviction.DetailPod, candidates)
	l.remember(t.Signal, measured, candidates)
	r := ranking{signal: t.Signal, by: hostRanker, measured: measured, measuring: time.Since(started)}
	if len(candidates) == 0 {
		return r
	}
	rows := make([]eviction.Candidate, len(candidates))
	for i := range candidates {
		row := &rows[i].Pod
		*row = candidates[i].Row
		row.Containers = nil // as in rowsOf
		rows[i].Measurement = measured[row.UID]
	}
	fallback := func() []eviction.Ranked { return rank.Kubelet(rows, t.Signal) }
	req := eviction.RankRequest{
		Pass: p.at.pass, Signal: t.Signal, Unit: t.Definition().Unit, Threshold: t.Wire(),
		Available: o.Available, Capacity: o.Capacity, Shortfall: policy.Shortfall(t, o), Hard: t.Hard(),
		Candidates: rows,
	}
	for _, i := range p.roster.Providers(t.Signal, eviction.CanRank) {
		order, err := i.Plugin.Ranker.Rank(ctx, req)
		if err != nil {
			l.Metrics.CallFailed(i.Name, "rank", err)
			l.Log.Error("ranking failed, falling back", "plugin", i.Name, "signal", t.Signal, "error", err)
			continue
		}
		r.order, r.by = l.withLeftOut(order, len(rows), fallback, t), i.Name
		return r
	}
	r.order = fallback()
	return r
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

// measure has the pods measured by who is in charge, and those that it could not
// measure by the fallbacks. A pod that nobody measured keeps its last known
// figures, else it is unknown.
func (l *Loop) measure(ctx context.Context, roster Roster, at sight, s eviction.Signal, detail eviction.Detail, candidates []pods.Pod) map[string]eviction.Measurement {
	var (
		mu      sync.Mutex
		got     = make(map[string]eviction.Measurement, len(candidates))
		missing = candidates
	)
	for _, p := range roster.Providers(s, eviction.CanMeasure) {
		if len(missing) == 0 {
			break
		}
		req := eviction.MeasureRequest{
			Pass: at.pass, View: at.view, Detail: detail,
			Signals: []eviction.Signal{s}, Pods: rowsOf(missing, detail),
		}
		err := p.Plugin.Measurer.Measure(ctx, req, func(m eviction.Measurement) {
			if m.State != eviction.MeasurementUnknown {
				mu.Lock()
				defer mu.Unlock()
				got[m.UID] = m
			}
		})
		if err != nil {
			l.Metrics.CallFailed(p.Name, "measure", err)
			l.Log.Error("measuring pods failed", "plugin", p.Name, "signal", s, "error", err)
		}
		mu.Lock()
		var still []pods.Pod
		for _, c := range missing {
			if _, ok := got[c.Row.UID]; !ok {
				still = append(still, c)
			}
		}
		mu.Unlock()
		missing = still
	}
	return got
}

// rowsOf returns the rows of pods. Containers only cost time on the wire unless
// somebody is to look into them.
func rowsOf(ps []pods.Pod, detail eviction.Detail) []eviction.Pod {
	rows := make([]eviction.Pod, len(ps))
	for i := range ps {
		rows[i] = ps[i].Row
		if detail != eviction.DetailContainers {
			rows[i].Containers = nil
		}
	}
	return rows
}

// remember keeps the figures for passes in which measuring fails, and gives pods
// without figures their last ones. Those of pods that are gone are forgotten.
func (l *Loop) remember(s eviction.Signal, got map[string]eviction.Measurement, candidates []pods.Pod) {
	last := l.lastUsage[s]
	for _, c := range candidates {
		if _, ok := got[c.Row.UID]; ok {
			continue
		}
		if m, ok := last[c.Row.UID]; ok {
			got[c.Row.UID] = m
		} else {
			got[c.Row.UID] = eviction.Measurement{UID: c.Row.UID, Err: "not measured"}
		}
	}
	l.lastUsage[s] = got
}

// measureVictim looks into the containers of the victim, for the message. If
// that fails the message does without them.
func (l *Loop) measureVictim(ctx context.Context, p *pass, s eviction.Signal, victim pods.Pod, known eviction.Measurement) eviction.Measurement {
	if known.State != eviction.Measured || len(known.Containers) > 0 {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, max(detailDeadline, l.Patience))
	defer cancel()
	detailed, ok := l.measure(ctx, p.roster, p.at, s, eviction.DetailContainers, []pods.Pod{victim})[victim.Row.UID]
	if !ok || detailed.State != eviction.Measured {
		return known
	}
	return detailed
}
