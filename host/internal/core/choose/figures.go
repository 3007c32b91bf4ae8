package choose

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// A Measuring describes how to measure pods: with the first of Measurers, and with the others those
// that it could not measure.
type Measuring struct {
	Bounds
	Measurers []registry.Provider
	At        eviction.PassView
	Signal    eviction.Signal
	Detail    eviction.Detail
	// Whole contains the use of Signal: a larger figure is unknown.
	Whole eviction.Whole
	// On measures pods again that may use more than the first one.
	On bool
}

// measuring returns how to measure pods for a request.
func (c *Chooser) measuring(pin *registry.Pin, r *Request) Measuring {
	s := r.Threshold.Signal
	return Measuring{
		Bounds: r.Bounds, Measurers: pin.Serving(r.Layout, s, eviction.CanMeasure), At: r.At, Signal: s, Detail: eviction.DetailPod, On: r.MeasureOn,
		Whole: c.whole(s, r.Observation, pin.Serving(r.Layout, s, eviction.CanObserve)),
	}
}

// whole returns what contains a pod's use of a signal: the machine's by the host itself, else the
// capacity if the built-in plugin observes it, since a custom observer may have a unit of its own. A
// limit that was lowered below the use counts as that. Inside a kubelet its figures stand.
func (c *Chooser) whole(s eviction.Signal, o eviction.Observation, observers []registry.Provider) (whole eviction.Whole) {
	if c.SourceStands == observe.Forever {
		return whole
	}
	if c.Fallback != nil {
		whole = c.Fallback.Whole(s)
	}
	if _, builtin := eviction.Builtin(s); whole.Size > 0 || !builtin || s == eviction.AllocatableMemoryAvailable || o.State != eviction.Observed || len(observers) == 0 || !observers[0].Builtin() {
		return whole
	}
	return eviction.Whole{Name: "the capacity of " + string(s), Size: max(o.Capacity, o.Capacity-o.Available)}
}

// figures collects the figures of pods as they arrive.
type figures struct {
	mu  sync.Mutex
	got map[string]eviction.Measurement
	// whole contains their use of signal. why has the reasons of unknown pods.
	signal eviction.Signal
	whole  eviction.Whole
	why    map[string]string
	// answered: a plugin has answered.
	answered bool

	took time.Duration
	// old says how old the figures of a former measurement are, nil if all are of now.
	old *pods.Stale
	// err is why no pod may be chosen by them.
	err error
}

// figures returns the figures of pods, each from the first source that has one: the plugins that measure them in
// turn, the host, the former measurement.
func (c *Chooser) figures(ctx context.Context, how Measuring, of []pods.Pod) *figures {
	began := time.Now()
	f := c.byPlugins(ctx, how, of)
	c.byHost(ctx, how, f, of)
	if b, _ := eviction.Builtin(how.Signal); how.On && !b.Condition.CheapToMeasure() {
		c.measureOn(ctx, how, f, of)
	}
	f.old = c.usage.remember(f, of, time.Now())
	f.err, f.took = c.none(f), time.Since(began)
	return f
}

// Measure has plugins measure pods and returns the results by uid.
func (c *Chooser) Measure(ctx context.Context, how Measuring, of []pods.Pod) map[string]eviction.Measurement {
	return c.byPlugins(ctx, how, of).got
}

// byPlugins asks one measurer after the other until all pods are measured.
func (c *Chooser) byPlugins(ctx context.Context, how Measuring, of []pods.Pod) *figures {
	f := &figures{got: make(map[string]eviction.Measurement, len(of)), signal: how.Signal, whole: how.Whole, why: map[string]string{}}
	for _, p := range how.Measurers {
		if of = f.missing(of); len(of) == 0 {
			break
		}
		if c.Responsiveness.Unresponsive(p.Instance) {
			continue
		}
		req := eviction.MeasureRequest{PassView: how.At, Detail: how.Detail, Signals: []eviction.Signal{p.As}, Pods: rowsOf(of, how.Detail)}
		err := how.call(ctx, p, c.MinDeadline, func(ctx context.Context) error {
			return c.Responsiveness.Measure(ctx, p.Instance, c.MinDeadline, func(ctx context.Context) error {
				return p.Plugin.Measurer.Measure(ctx, req, func(answer eviction.Measurement) {
					if p.As != how.Signal {
						renameUsage(&answer, p.As, how.Signal)
					}
					f.take(answer)
				})
			})
		})
		f.answered = f.answered || err == nil || errors.Is(err, eviction.ErrRefused)
		if err != nil {
			c.Metrics.CallFailed(p.Name, "measure", err)
			c.Log.Error("measuring pods failed", "plugin", p.Name, "signal", how.Signal, "error", err)
		}
	}
	return f
}

const (
	// measureOnFor bounds the time for which pods are measured again: the figures by which a kubelet
	// acts are up to a minute old (volumeStatsAggPeriod), half of that on average.
	measureOnFor = 30 * time.Second
	// measureOnPause is the pause before that, for a plugin that answers at once.
	measureOnPause = 100 * time.Millisecond
)

// measureOn measures the pods again whose use is a lower bound, as long as one of them would go first
// if it used the most that it can.
func (c *Chooser) measureOn(ctx context.Context, how Measuring, f *figures, of []pods.Pod) {
	for end := time.Now().Add(measureOnFor); time.Now().Before(end) && ctx.Err() == nil; {
		open := f.unsettled(of)
		if len(open) == 0 {
			return
		}
		more := c.byPlugins(ctx, how, open)
		f.mu.Lock()
		maps.Copy(f.got, more.got)
		f.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(measureOnPause):
		}
	}
}

// unsettled returns the pods that would go before the first one by the kubelet's order if they used the
// most that they can.
func (f *figures) unsettled(candidates []pods.Pod) (open []pods.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bounded := func(p pods.Pod) bool {
		return slices.ContainsFunc(f.got[p.Row.UID].Usage, func(u eviction.SignalUsage) bool { return u.AtMost > 0 })
	}
	if !slices.ContainsFunc(candidates, bounded) {
		return nil
	}
	before, rows := rank.For(f.signal), rowsOfCandidates(candidates, f.got)
	first := slices.MinFunc(rows, func(a, b eviction.Candidate) int { return before(&a, &b) })
	for i, most := range rows {
		if !bounded(candidates[i]) || most.Pod.UID == first.Pod.UID {
			continue
		}
		most.Measurement.Usage = slices.Clone(most.Measurement.Usage)
		for i := range most.Measurement.Usage {
			u := &most.Measurement.Usage[i]
			u.Value = max(u.Value, u.AtMost)
		}
		if before(&most, &first) < 0 {
			open = append(open, candidates[i])
		}
	}
	return open
}

// byHost measures the pods that no plugin has measured: priority alone would choose the wrong one.
// It does not override the answers of an authoritative source.
func (c *Chooser) byHost(ctx context.Context, how Measuring, f *figures, of []pods.Pod) {
	missing := f.missing(of)
	stands := c.SourceStands == observe.Forever || c.SourceStands > 0 && len(f.got) > 0
	if c.Fallback == nil || len(missing) == 0 || stands && f.answered {
		return
	}
	ctx, late := how.whileLeft(ctx, c.MinDeadline)
	defer late()
	answers := c.Fallback.Measure(ctx, how.Signal, rowsOf(missing, eviction.DetailPod))
	for _, a := range answers {
		f.take(a)
	}
	if len(answers) > 0 {
		c.Log.Warn("no plugin measured these pods, host measures them", "signal", how.Signal, "pods", len(answers), "of", len(of))
	}
}

// errNoFigures is why no pod is chosen by disks while the source of all figures has none, which the
// host cannot measure: as with a kubelet, none goes by priority alone.
var errNoFigures = errors.New("the source of figures has none of pods now")

// none returns errNoFigures if the source of all figures has none.
func (c *Chooser) none(f *figures) error {
	d, _ := eviction.Builtin(f.signal)
	known := slices.ContainsFunc(slices.Collect(maps.Values(f.got)), func(m eviction.Measurement) bool { return m.State != eviction.MeasurementUnknown })
	if c.SourceStands == 0 || c.SourceStands == observe.Forever || d.Condition != eviction.DiskPressure || !f.answered || known {
		return nil
	}
	return errNoFigures
}

// take keeps an answer, unless it is unknown or its use of the signal cannot be.
func (f *figures) take(answer eviction.Measurement) {
	f.mu.Lock()
	defer f.mu.Unlock()
	used := answer.UsageFor(f.signal)
	if len(answer.Usage) == 0 { // for memory the working set stands in
		used = answer.WorkingSetBytes.Value
	}
	if err := f.whole.Check(used); err != nil && answer.State == eviction.Measured {
		answer = eviction.Measurement{UID: answer.UID, Err: "uses " + err.Error()}
	}
	if answer.State == eviction.MeasurementUnknown {
		f.why[answer.UID] = printable.ClipText(answer.Err)
		return
	}
	f.got[answer.UID] = answer
}

// missing returns the pods of asked that have no figure.
func (f *figures) missing(asked []pods.Pod) []pods.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(asked), func(p pods.Pod) bool { _, ok := f.got[p.Row.UID]; return ok })
}

// rowsOf returns the rows of pods, with containers only if detail asks for them: they cost time on
// the wire.
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

// lastUsage holds the last figures of pods by signal and uid. It is safe for concurrent use.
type lastUsage struct {
	mu       sync.Mutex
	bySignal map[eviction.Signal]map[string]lastFigure
}

// A lastFigure is the last figure of a pod, measured at at.
type lastFigure struct {
	eviction.Measurement
	at time.Time
}

// errOldFigures is why figures of a former measurement count.
var errOldFigures = errors.New("not measured now")

// remember keeps the figures for passes in which measuring fails, and gives pods without figures
// their last ones: it returns the age of the oldest of these, or says that a pod has none, nil if all
// are of now. It forgets pods that are gone.
func (u *lastUsage) remember(of *figures, candidates []pods.Pod, now time.Time) (old *pods.Stale) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s, got := of.signal, of.got
	last, next := u.bySignal[s], make(map[string]lastFigure, len(candidates))
	for _, c := range candidates {
		uid := c.Row.UID
		if m, ok := got[uid]; ok {
			next[uid] = lastFigure{m, now}
			continue
		}
		if old == nil {
			old = &pods.Stale{Input: "figures of pods", Err: errOldFigures}
		}
		m, ok := last[uid]
		if ok {
			next[uid], got[uid] = m, m.Measurement
			old.Age = max(old.Age, now.Sub(m.at))
		} else {
			got[uid] = eviction.Measurement{UID: uid, Err: cmp.Or(of.why[uid], "not measured")}
		}
	}
	u.bySignal[s] = next
	return old
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
