package loop

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// hostItself is the name under which the host's own comparators rank, and under
// which it observes without a plugin.
const hostItself = "evictd"

// A ranking is the order in which pods may go, who made it and from what.
type ranking struct {
	signal   eviction.Signal
	order    []eviction.Ranked
	by       string
	measured map[string]eviction.Measurement
	// measuring is how long it took to measure.
	measuring time.Duration
}

// A chooser finds out which pod is to go for a threshold. It uses nothing of the
// loop's state that is not said here, so that it can run beside the loop.
type chooser struct {
	*Loop
	roster      Roster
	layout      eviction.Layout
	at          eviction.PassView
	threshold   policy.Threshold
	observation eviction.Observation
	dying       func(uid string) bool
	veto        RankVeto
}

// A choice is what a chooser found out.
type choice struct {
	snapshot   pods.Snapshot
	err        error // the pods are not known
	candidates []pods.Pod
	ranking    ranking
	// tooSoon: nothing is known of any pod, and who is to measure them is about to
	// come up.
	tooSoon bool
	// detailed is the first of the ranking, looked into for the message.
	detailed eviction.Measurement
}

// measured is what is known of a pod.
func (c *choice) measured(uid string) eviction.Measurement {
	if c.detailed.UID == uid {
		return c.detailed
	}
	return c.ranking.measured[uid]
}

func (c *chooser) choose(ctx context.Context, list func() (pods.Snapshot, error)) (out choice) {
	if out.snapshot, out.err = list(); out.err != nil {
		return out
	}
	out.candidates = c.candidates(out.snapshot)
	out.ranking = c.rank(ctx, out.candidates)
	out.tooSoon = c.tooSoon(out.ranking)
	if out.tooSoon {
		return out
	}
	if len(out.ranking.order) > 0 && ctx.Err() == nil {
		first := out.ranking.order[0].UID
		out.detailed = c.measureVictim(ctx, podByUID(out.candidates, first), out.ranking.measured[first])
	}
	return out
}

// candidates are the pods that may be evicted at all. Plugins see no others. The
// slice must not be changed: it is the snapshot's own if all pods may.
func (c *chooser) candidates(s pods.Snapshot) []pods.Pod {
	spared := func(p pods.Pod) bool { return !p.HasManifest || !policy.Evictable(p.API) || c.dying(p.Row.UID) }
	if !slices.ContainsFunc(s.Pods, spared) {
		return s.Pods
	}
	return slices.DeleteFunc(slices.Clone(s.Pods), spared)
}

// rank measures the candidates and asks the ranker in charge for an order, then
// the fallbacks, then sorts by itself: an eviction never waits for a plugin to
// be well.
func (c *chooser) rank(ctx context.Context, candidates []pods.Pod) ranking {
	t, o := c.threshold, c.observation
	req := eviction.RankRequest{
		Pass: c.at.Pass, Signal: t.Signal, Unit: t.Definition().Unit, Threshold: t.Wire(),
		Available: o.Available, Capacity: o.Capacity, Shortfall: policy.Shortfall(t, o), Hard: t.Hard(),
	}
	rankers := c.roster.Serving(c.layout, t.Signal, eviction.CanRank)
	started := time.Now()
	m := &measuring{loop: c.Loop, at: c.at, signal: t.Signal, detail: eviction.DetailPod, got: make(map[string]eviction.Measurement, len(candidates))}
	first := m.run(ctx, c.roster.Serving(c.layout, t.Signal, eviction.CanMeasure), candidates, rankers, req)
	m.byHost(ctx, candidates)
	c.lastUsage.remember(t.Signal, m.got, candidates)
	r := ranking{signal: t.Signal, by: hostItself, measured: m.got, measuring: m.done.Sub(started)}
	if len(candidates) == 0 {
		return r
	}
	rows := sync.OnceValue(func() []eviction.Candidate { return rowsOfCandidates(candidates, m.got) })
	fallback := func() []eviction.Ranked { return rank.Kubelet(rows(), t.Signal) }
	for n, i := range rankers {
		if c.silence.hung(i.Instance) {
			continue
		}
		order, err := first.Order, first.Err
		if n > 0 || order == nil && err == nil {
			req.Signal, req.Candidates = i.As, underName(rows(), t.Signal, i.As)
			order, err = i.Plugin.Ranker.Rank(ctx, req)
		}
		if err != nil {
			c.Metrics.CallFailed(i.Name, "rank", err)
			c.Log.Error("ranking failed, falling back", "plugin", i.Name, "signal", t.Signal, "error", err)
			continue
		}
		r.order, r.by = c.withLeftOut(order, len(candidates), fallback), i.Name
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

// underName has the use of signal s as that of another name of the same filesystem,
// by which a ranker knows it.
func underName(rows []eviction.Candidate, s, name eviction.Signal) []eviction.Candidate {
	if s == name {
		return rows
	}
	out := slices.Clone(rows)
	for i := range out {
		renameUsage(&out[i].Measurement, s, name)
	}
	return out
}

// withLeftOut appends the candidates that a ranker left out, in the kubelet's
// order, unless its veto stands.
func (c *chooser) withLeftOut(order []eviction.Ranked, candidates int, fallback func() []eviction.Ranked) []eviction.Ranked {
	if len(order) == candidates || c.veto.standsFor(c.threshold) {
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
