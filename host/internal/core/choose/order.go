package choose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// rank measures the candidates and asks the ranker in charge for an order, then the fallbacks, then
// sorts them itself.
func (c *Chooser) rank(ctx context.Context, pin *registry.Pin, r Request, out *Choice) {
	t, req := r.Threshold, r.ranking()
	rankers := pin.Serving(r.Layout, t.Signal, eviction.CanRank)
	started := time.Now()
	how := c.measuring(pin, &r, eviction.DetailPod)
	m := c.measure(ctx, how, out.Candidates)
	c.byHost(ctx, m, t.Signal, r.Left, out.Candidates)
	if r.MeasureOn {
		c.measureOn(ctx, how, m, out.Candidates)
	}
	if old := c.usage.remember(m, out.Candidates, time.Now()); old != nil {
		out.Snapshot.Stale = append(slices.Clone(out.Snapshot.Stale), *old)
	}
	for _, i := range rankers {
		out.labels, out.annotations = append(out.labels, i.Plugin.WantLabels...), append(out.annotations, i.Plugin.WantAnnotations...)
	}
	out.Ranker, out.Measured, out.Took = observe.HostItself, m.got, max(0, m.done.Sub(started))
	if len(out.Candidates) == 0 {
		return
	}
	if out.Err = c.noFigures(m, t.Signal); out.Err != nil {
		return
	}
	asKubelet := sync.OnceValues(func() ([]eviction.Candidate, []eviction.Ranked) {
		return kubeletsOrder(rowsOfCandidates(out.Candidates, m.got), t.Signal)
	})
	fallback := func() []eviction.Ranked { _, order := asKubelet(); return order }
	named := t.Definition().Candidates == eviction.RankedPods
	out.Unnamed = fmt.Sprintf("no plugin that ranks %s answers, and it has no other candidates", t.Signal)
	for _, i := range rankers {
		if c.Responsiveness.Unresponsive(i.Instance) {
			continue
		}
		rows, _ := asKubelet()
		order, err := c.ask(ctx, &r, i, req, rows)
		if err != nil {
			out.Unnamed = fmt.Sprintf("the ranking by %s failed, and %s has no other candidates: %v", i.Name, t.Signal, err)
			continue
		}
		if !named && !r.Veto && len(order) < len(out.Candidates) {
			order = withLeftOut(order, fallback())
		}
		if out.Unnamed = ""; named && len(order) == 0 {
			out.Unnamed = fmt.Sprintf("%s names none of %d pods, and %s has no other candidates", i.Name, len(out.Candidates), t.Signal)
		}
		out.Order, out.Ranker, out.RankerVersion, out.RankerCustom = order, i.Name, i.Plugin.Version, !i.Builtin()
		return
	}
	if !named {
		out.Order, out.Unnamed = fallback(), ""
	}
}

// ask has a ranker order rows.
func (c *Chooser) ask(ctx context.Context, r *Request, i registry.Provider, req eviction.RankRequest, rows []eviction.Candidate) (order []eviction.Ranked, err error) {
	req.Signal, req.Candidates = i.As, underName(rows, r.Threshold.Signal, i.As)
	err = r.Budget.Call(ctx, i.Instance, func(ctx context.Context) (err error) {
		ctx, late := c.whileLeft(ctx, i.Builtin(), r.Left)
		defer late()
		order, err = i.Plugin.Ranker.Rank(ctx, req)
		return err
	})
	if err != nil {
		c.rankingFailed(i, r.Threshold.Signal, err)
	}
	return order, err
}

func (c *Chooser) rankingFailed(i registry.Provider, s eviction.Signal, err error) {
	c.Metrics.CallFailed(i.Name, "rank", err)
	c.Log.Error("ranking failed, falling back", "plugin", i.Name, "signal", s, "error", err)
}

func (c *Chooser) measuring(pin *registry.Pin, r *Request, detail eviction.Detail) Measuring {
	return Measuring{pin.Serving(r.Layout, r.Threshold.Signal, eviction.CanMeasure), r.At, r.Threshold.Signal, detail, r.Budget, c.whole(pin, r), r.Left}
}

// errNoFigures is why no pod is chosen by disks while the source of all figures has none, which the
// host cannot measure: as with a kubelet, none goes by priority alone.
var errNoFigures = errors.New("the source of figures has none of pods now")

func (c *Chooser) noFigures(m *measured, s eviction.Signal) error {
	d, _ := eviction.Builtin(s)
	known := slices.ContainsFunc(slices.Collect(maps.Values(m.got)), func(m eviction.Measurement) bool { return m.State != eviction.MeasurementUnknown })
	if c.SourceStands == 0 || c.SourceStands == observe.Forever || d.Condition != eviction.DiskPressure || !m.answered || known {
		return nil
	}
	return errNoFigures
}

// whole returns what contains a pod's use of the signal: the machine's by the host itself, else the
// capacity if the built-in plugin observes it, since a custom observer may have a unit of its own. A
// limit that was lowered below the use counts as that. Inside a kubelet its figures stand.
func (c *Chooser) whole(pin *registry.Pin, r *Request) (whole eviction.Whole) {
	s, o := r.Threshold.Signal, r.Observation
	if c.SourceStands == observe.Forever {
		return whole
	}
	if c.Fallback != nil {
		whole = c.Fallback.Whole(s)
	}
	observers := pin.Serving(r.Layout, s, eviction.CanObserve)
	if _, builtin := eviction.Builtin(s); whole.Size > 0 || !builtin || s == eviction.AllocatableMemoryAvailable || o.State != eviction.Observed || len(observers) == 0 || !observers[0].Builtin() {
		return whole
	}
	return eviction.Whole{Name: "the capacity of " + string(s), Size: max(o.Capacity, o.Capacity-o.Available)}
}

// ranking returns the request to a ranker, without the candidates.
func (r *Request) ranking() eviction.RankRequest {
	t, o := r.Threshold, r.Observation
	return eviction.RankRequest{
		Pass: r.At.Pass, Signal: t.Signal, Unit: t.Definition().Unit, Threshold: t.Wire(),
		Available: o.Available, Capacity: o.Capacity, Shortfall: policy.Shortfall(t, o), Hard: t.Hard(),
	}
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

// withLeftOut appends the candidates that a ranker left out, in the kubelet's order.
func withLeftOut(order, all []eviction.Ranked) []eviction.Ranked {
	ranked := make(map[string]bool, len(order))
	for _, r := range order {
		ranked[r.UID] = true
	}
	return append(order, slices.DeleteFunc(all, func(r eviction.Ranked) bool { return ranked[r.UID] })...)
}
