package choose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

const (
	// listDeadline bounds a listing of the pods.
	listDeadline = 5 * time.Second
	// detailDeadline bounds inspecting the victim's containers, which only the message needs.
	detailDeadline = 250 * time.Millisecond
	// FirstStarts is the time after its own start for which the host waits for plugins that measure
	// pods, before it chooses a pod by priority alone.
	FirstStarts = 30 * time.Second
	// rankingShown bounds the pods of a ranking that are logged.
	rankingShown = 10
)

// Options configures a Chooser.
type Options struct {
	observe.Options

	Pods           pods.Source
	Responsiveness *observe.Responsiveness
	// MinDeadline is the least deadline of a call.
	MinDeadline time.Duration
}

// A Chooser chooses the pod to evict. It is safe for concurrent use.
type Chooser struct {
	Options
	// Began is when the host started: plugins may still be starting for a while.
	Began time.Time
	usage lastUsage
	// preparing is held while a listing is prepared.
	preparing sync.Mutex
}

// New returns a Chooser without figures.
func New(o Options) *Chooser {
	return &Chooser{Options: o, usage: lastUsage{bySignal: map[eviction.Signal]map[string]lastFigure{}}}
}

// List lists the pods, within the time that a pass may wait for it.
func (c *Chooser) List(ctx context.Context) (pods.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, max(listDeadline, c.MinDeadline))
	defer cancel()
	return c.Pods.Active(ctx)
}

// Prepare has the pods listed in advance, since a pod may soon be chosen for a condition.
func (c *Chooser) Prepare(ctx context.Context, condition eviction.Condition) {
	source, can := c.Pods.(pods.Preparer)
	if !can || !condition.CheapToMeasure() || !c.preparing.TryLock() {
		return
	}
	defer c.preparing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listDeadline)
	defer cancel()
	source.Prepare(ctx)
}

// Forget drops the last figures of a signal whose unit has changed.
func (c *Chooser) Forget(s eviction.Signal) {
	c.usage.mu.Lock()
	defer c.usage.mu.Unlock()
	delete(c.usage.bySignal, s)
}

// Reliable returns the measured use of s by a pod if it is reliable: a vendor's figure may be a
// score that only orders pods.
func Reliable(pin *registry.Pin, layout eviction.Layout, m eviction.Measurement, s eviction.Signal) eviction.Figure {
	i := slices.IndexFunc(m.Usage, func(u eviction.SignalUsage) bool { return u.Signal == s })
	if m.State != eviction.Measured || i < 0 || !reliable(pin, layout, s) {
		return eviction.Figure{}
	}
	return eviction.Some(m.Usage[i].Value)
}

// ByHost returns a pod's use of s as the host reads it, missing if it cannot.
func (c *Chooser) ByHost(ctx context.Context, s eviction.Signal, pod pods.Pod) (use eviction.Figure) {
	if c.Fallback != nil && c.SourceStands == 0 {
		for _, m := range c.Fallback.Measure(ctx, s, []eviction.Pod{pod.Row}) {
			use = eviction.Figure{Value: m.UsageFor(s), OK: m.State == eviction.Measured}
		}
	}
	return use
}

func reliable(pin *registry.Pin, layout eviction.Layout, s eviction.Signal) bool {
	measurers := pin.Serving(layout, s, eviction.CanMeasure)
	return len(measurers) > 0 && measurers[0].Builtin()
}

// Total returns the candidates' total use of s, missing if any of them is unknown, a lower bound or
// unreliable.
func (c *Choice) Total(pin *registry.Pin, layout eviction.Layout, s eviction.Signal) eviction.Figure {
	if !reliable(pin, layout, s) {
		return eviction.Figure{}
	}
	total := eviction.Some(0)
	for i := range c.Candidates {
		m := c.Measured[c.Candidates[i].Row.UID]
		if m.State != eviction.Measured || slices.ContainsFunc(m.Usage, func(u eviction.SignalUsage) bool { return u.AtMost > 0 }) {
			return eviction.Figure{}
		}
		total.Value += m.UsageFor(s)
	}
	return total
}

// Used returns what each measured candidate uses of s, as the kubelet's order compares it.
func (c *Choice) Used(s eviction.Signal) iter.Seq2[*eviction.Pod, int64] {
	return func(yield func(*eviction.Pod, int64) bool) {
		for i := range c.Candidates {
			row := eviction.Candidate{Pod: c.Candidates[i].Row, Measurement: c.Measured[c.Candidates[i].Row.UID]}
			if row.Measurement.State == eviction.Measured && !yield(&row.Pod, rank.Used(&row, s)) {
				return
			}
		}
	}
}

// A Request describes the threshold for which to choose a pod.
type Request struct {
	Threshold   policy.Threshold
	Observation eviction.Observation
	Layout      eviction.Layout
	At          eviction.PassView
	// Ending reports whether a pod is a victim already.
	Ending func(uid string) bool
	// Veto protects pods that a custom ranker leaves out.
	Veto bool
	// MeasureOn measures pods again that may use more than the first one. It takes time.
	MeasureOn bool
	// Budget bounds the wait for custom plugins.
	Budget *observe.Budget
	// Left is the time until nothing is left of the signal at the pace of its fall, 0 if calls have time. Figures that
	// do not come in a part of it are the host's own, or the last ones.
	Left time.Duration
	// List lists the pods.
	List func(ctx context.Context) (pods.Snapshot, error)
}

// A Choice is the eviction order of pods, with the ranker and its input.
type Choice struct {
	Snapshot pods.Snapshot
	// Err is why the pods could not be listed.
	Err        error
	Candidates []pods.Pod
	Order      []eviction.Ranked
	Ranker     string
	// RankerVersion is the version that the ranker reports. RankerCustom: its order is not the
	// kubelet's.
	RankerVersion string
	RankerCustom  bool
	Measured      map[string]eviction.Measurement
	// Took is the duration of the measurement.
	Took time.Duration
	// Unnamed is why no pod may go for a signal of RankedPods, empty if one may.
	Unnamed string
	// TooSoon: no pod has a figure, and the plugin that measures them is still starting.
	TooSoon bool
	// labels and annotations are the keys that rankers see of pods.
	labels, annotations []string
	// detailed is the first pod's measurement with containers, for the message.
	detailed eviction.Measurement
}

// Choose lists, measures and ranks the pods.
func (c *Chooser) Choose(ctx context.Context, pin *registry.Pin, r Request) (out Choice) {
	out.Snapshot, out.Err = r.List(ctx)
	if out.Err != nil {
		return out
	}
	out.Candidates = candidates(out.Snapshot, r.Ending)
	c.rank(ctx, pin, r, &out)
	if out.Snapshot.Recheck != nil {
		if corrected, differs := out.Snapshot.Recheck(ctx); differs {
			out = Choice{Snapshot: corrected, Candidates: candidates(corrected, r.Ending)}
			c.rank(ctx, pin, r, &out)
		}
	}
	out.TooSoon = c.tooSoon(pin, r.Threshold.Signal, &out)
	if !out.TooSoon && len(out.Order) > 0 && ctx.Err() == nil {
		out.detailed = c.detail(ctx, pin, r, &out)
	}
	return out
}

// spared returns the reason why a pod may not be evicted at all, empty if it may.
func spared(p *pods.Pod, ending func(uid string) bool) string {
	switch {
	case !p.HasManifest:
		return "without a manifest"
	case !policy.Evictable(p.API):
		return "critical or static"
	case ending(p.Row.UID):
		return "being evicted"
	default:
		return ""
	}
}

// A Spared is a pod that may not be evicted, and why.
type Spared struct {
	Pod *pods.Pod
	Why string
}

// Spared returns the pods that were not candidates.
func (c *Choice) Spared() (out []Spared) {
	is := make(map[string]bool, len(c.Candidates))
	for i := range c.Candidates {
		is[c.Candidates[i].Row.UID] = true
	}
	for i := range c.Snapshot.Pods {
		if p := &c.Snapshot.Pods[i]; !is[p.Row.UID] {
			out = append(out, Spared{p, spared(p, func(string) bool { return true })})
		}
	}
	return out
}

// Candidates returns the pods of a snapshot that may be evicted. The caller must not modify them.
func Candidates(s pods.Snapshot) []pods.Pod {
	return candidates(s, func(string) bool { return false })
}

// candidates returns the pods that may be evicted at all. Plugins see no others. The caller must
// not modify the slice: it is the snapshot's own if all pods qualify.
func candidates(s pods.Snapshot, ending func(uid string) bool) []pods.Pod {
	isSpared := func(p pods.Pod) bool { return spared(&p, ending) != "" }
	if !slices.ContainsFunc(s.Pods, isSpared) {
		return s.Pods
	}
	return slices.DeleteFunc(slices.Clone(s.Pods), isSpared)
}

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

// tooSoon reports whether to retry later instead of using a choice: no pod was measured, and the
// plugin that should measure has not finished its first start.
func (c *Chooser) tooSoon(pin *registry.Pin, s eviction.Signal, out *Choice) bool {
	if len(out.Order) == 0 || time.Since(c.Began) >= FirstStarts {
		return false
	}
	for _, m := range out.Measured {
		if m.State != eviction.MeasurementUnknown {
			return false
		}
	}
	return pin.FirstStart(s)
}

// detail measures the containers of the first pod, for the message. If that fails the message omits
// them.
func (c *Chooser) detail(ctx context.Context, pin *registry.Pin, r Request, out *Choice) eviction.Measurement {
	pod, known := out.First()
	if known.State != eviction.Measured || len(known.Containers) > 0 {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, max(detailDeadline, c.MinDeadline))
	defer cancel()
	detailed, ok := c.Measure(ctx, c.measuring(pin, &r, eviction.DetailContainers), []pods.Pod{pod})[pod.Row.UID]
	if !ok || detailed.State != eviction.Measured {
		return known
	}
	return detailed
}

// Drop removes pods that must not be chosen any more: they became victims, or have ended. They
// count neither as spared by the ranker nor as candidates.
func (c *Choice) Drop(gone func(uid string) bool) {
	c.Order = slices.DeleteFunc(c.Order, func(r eviction.Ranked) bool { return gone(r.UID) })
	c.Candidates = slices.DeleteFunc(slices.Clone(c.Candidates), func(p pods.Pod) bool { return gone(p.Row.UID) })
}

// First returns the pod to evict and its measurement. The order must not be empty.
func (c *Choice) First() (pods.Pod, eviction.Measurement) {
	uid := c.Order[0].UID
	if c.detailed.UID == uid {
		return c.pod(uid), c.detailed
	}
	return c.pod(uid), c.Measured[uid]
}

func (c *Choice) pod(uid string) pods.Pod {
	for i := range c.Candidates {
		if c.Candidates[i].Row.UID == uid {
			return c.Candidates[i]
		}
	}
	return pods.Pod{}
}

// Shown returns the head of the order for the log.
func (c *Choice) Shown() []string {
	out := make([]string, 0, rankingShown)
	for _, r := range c.Order[:min(len(c.Order), rankingShown)] {
		text := c.pod(r.UID).String()
		if r.Reason != "" {
			text = fmt.Sprintf("%s (%s)", text, r.Reason)
		}
		out = append(out, text)
	}
	return out
}

// WhyNobody returns why none of the active pods can be evicted. ending reports whether a pod is a
// victim already.
func (c *Choice) WhyNobody(ending func(uid string) bool) string {
	if c.Unnamed != "" && len(c.Candidates) > 0 {
		return c.Unnamed
	}
	counts := map[string]int{}
	for i := range c.Snapshot.Pods {
		counts[cmp.Or(spared(&c.Snapshot.Pods[i], ending), "left out by the ranker")]++
	}
	var reasons []string
	for _, reason := range []string{"without a manifest", "critical or static", "being evicted", "left out by the ranker"} {
		if n := counts[reason]; n > 0 {
			reasons = append(reasons, fmt.Sprintf("%d %s", n, reason))
		}
	}
	return cmp.Or(strings.Join(reasons, ", "), "no pod is active")
}
