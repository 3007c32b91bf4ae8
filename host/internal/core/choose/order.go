package choose

import (
	"context"
	"fmt"
	"slices"

	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// order has the ranker in charge order the candidates, else the next one, and orders them itself if there is none.
func (c *Chooser) order(ctx context.Context, rankers []registry.Provider, r *Request, out *Choice) {
	out.Ranker = observe.HostItself
	for _, i := range rankers {
		out.labels, out.annotations = append(out.labels, i.Plugin.WantLabels...), append(out.annotations, i.Plugin.WantAnnotations...)
	}
	if len(out.Candidates) == 0 || out.Err != nil {
		return
	}
	t := r.Threshold
	rows, kubelets := kubeletsOrder(rowsOfCandidates(out.Candidates, out.Measured), t.Signal)
	named := t.Definition().Candidates == eviction.RankedPods
	if out.Order = kubelets; named {
		out.Order, out.Unnamed = nil, fmt.Sprintf("no plugin that ranks %s answers, and it has no other candidates", t.Signal)
	}
	for _, i := range rankers {
		if c.Responsiveness.Unresponsive(i.Instance) {
			continue
		}
		order, err := c.ask(ctx, r, i, rows)
		if err != nil {
			c.Metrics.CallFailed(i.Name, "rank", err)
			c.Log.Error("ranking failed, falling back", "plugin", i.Name, "signal", t.Signal, "error", err)
			if named {
				out.Unnamed = fmt.Sprintf("the ranking by %s failed, and %s has no other candidates: %v", i.Name, t.Signal, err)
			}
			continue
		}
		if !named && !r.Veto {
			order = withLeftOut(order, kubelets)
		}
		if out.Unnamed = ""; named && len(order) == 0 {
			out.Unnamed = fmt.Sprintf("%s names none of %d pods, and %s has no other candidates", i.Name, len(out.Candidates), t.Signal)
		}
		out.Order, out.Ranker, out.RankerVersion, out.RankerCustom = order, i.Name, i.Plugin.Version, !i.Builtin()
		return
	}
}

// ask has a ranker order rows.
func (c *Chooser) ask(ctx context.Context, r *Request, i registry.Provider, rows []eviction.Candidate) (order []eviction.Ranked, err error) {
	t, o := r.Threshold, r.Observation
	req := eviction.RankRequest{
		Pass: r.At.Pass, Signal: i.As, Unit: t.Definition().Unit, Threshold: t.Wire(),
		Available: o.Available, Capacity: o.Capacity, Shortfall: policy.Shortfall(t, o), Hard: t.Hard(),
		Candidates: underName(rows, t.Signal, i.As),
	}
	err = r.call(ctx, i, c.MinDeadline, func(ctx context.Context) (err error) {
		order, err = i.Plugin.Ranker.Rank(ctx, req)
		return err
	})
	return order, err
}

func rowsOfCandidates(candidates []pods.Pod, measured map[string]eviction.Measurement) []eviction.Candidate {
	rows := make([]eviction.Candidate, len(candidates))
	for i, row := range rowsOf(candidates, eviction.DetailPod) {
		rows[i] = eviction.Candidate{Pod: row, Measurement: measured[row.UID]}
	}
	return rows
}

// kubeletsOrder returns rows in the kubelet's order for a signal, and that order.
func kubeletsOrder(rows []eviction.Candidate, s eviction.Signal) (sorted []eviction.Candidate, order []eviction.Ranked) {
	at := make(map[string]int, len(rows))
	for i := range rows {
		at[rows[i].Pod.UID] = i
	}
	order = rank.Kubelet(rows, s)
	sorted = make([]eviction.Candidate, len(order))
	for i := range order {
		sorted[i] = rows[at[order[i].UID]]
	}
	return sorted, order
}

// underName renames the use of signal s to name, the signal of the same filesystem that a ranker
// knows.
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

// renameUsage renames m's use of signal from to another signal of the same filesystem. It copies
// what m shares with others.
func renameUsage(m *eviction.Measurement, from, to eviction.Signal) {
	m.Usage = slices.Clone(m.Usage)
	for i := range m.Usage {
		if m.Usage[i].Signal == from {
			m.Usage[i].Signal = to
		}
	}
}

// withLeftOut appends the candidates that a ranker left out, in the kubelet's order.
func withLeftOut(order, all []eviction.Ranked) []eviction.Ranked {
	ranked := make(map[string]bool, len(order))
	for _, r := range order {
		ranked[r.UID] = true
	}
	return append(order, slices.DeleteFunc(all, func(r eviction.Ranked) bool { return ranked[r.UID] })...)
}
