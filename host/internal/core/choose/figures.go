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
	Measurers []registry.Provider
	At        eviction.PassView
	Signal    eviction.Signal
	Detail    eviction.Detail
	Budget    *observe.Budget
	// Whole contains the use of Signal: a larger figure is unknown.
	Whole eviction.Whole
	// Left is as in a Request.
	Left time.Duration
}

// Measure measures pods and returns the results by uid.
func (c *Chooser) Measure(ctx context.Context, how Measuring, candidates []pods.Pod) map[string]eviction.Measurement {
	return c.measure(ctx, how, candidates).got
}

// measured collects pods' figures as they arrive.
type measured struct {
	mu  sync.Mutex
	got map[string]eviction.Measurement
	// whole contains their use of signal. why has the reasons of unknown pods.
	signal eviction.Signal
	whole  eviction.Whole
	why    map[string]string
	// asked is the number of pods, done when the last of them had an answer.
	asked int
	done  time.Time
	// answered: a plugin has answered.
	answered bool
}

// measure asks one measurer after the other until all pods are measured.
func (c *Chooser) measure(ctx context.Context, how Measuring, candidates []pods.Pod) *measured {
	m := &measured{got: make(map[string]eviction.Measurement, len(candidates)), asked: len(candidates), signal: how.Signal, whole: how.Whole, why: map[string]string{}}
	missing := candidates
	for _, p := range how.Measurers {
		if len(missing) == 0 {
			break
		}
		if c.Responsiveness.Unresponsive(p.Instance) {
			continue
		}
		err := how.Budget.Call(ctx, p.Instance, func(ctx context.Context) error {
			ctx, cancel := c.Responsiveness.Limit(ctx, p.Instance, c.MinDeadline)
			defer cancel()
			ctx, late := c.whileLeft(ctx, p.Builtin(), how.Left)
			defer late()
			return p.Plugin.Measurer.Measure(ctx, eviction.MeasureRequest{
				PassView: how.At, Detail: how.Detail, Signals: []eviction.Signal{p.As}, Pods: rowsOf(missing, how.Detail),
			}, func(answer eviction.Measurement) {
				if p.As != how.Signal {
					renameUsage(&answer, p.As, how.Signal)
				}
				m.take(answer)
			})
		})
		c.Responsiveness.Measured(p.Instance, err)
		m.answered = m.answered || err == nil || errors.Is(err, eviction.ErrRefused)
		if err != nil {
			c.Metrics.CallFailed(p.Name, "measure", err)
			c.Log.Error("measuring pods failed", "plugin", p.Name, "signal", how.Signal, "error", err)
		}
		missing = m.missing(missing)
	}
	if m.done.IsZero() {
		m.done = time.Now()
	}
	return m
}

const (
	// Of the time that is left a call may take one part in callsLeft, since several follow one another before the pod has
	// ended, but leastDeadline at least: that is enough for 500 pods.
	callsLeft     = 8
	leastDeadline = 50 * time.Millisecond
)

// whileLeft bounds a call of the host or of a built-in plugin by the time that is left, 0 if that is not known. A custom one has
// its budget.
func (c *Chooser) whileLeft(ctx context.Context, builtin bool, left time.Duration) (context.Context, context.CancelFunc) {
	if left == 0 || !builtin {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, max(left/callsLeft, leastDeadline, c.MinDeadline))
}

const (
	// measureOnFor bounds the time for which pods are measured again: the figures by which a kubelet
	// acts are up to a minute old (volumeStatsAggPeriod), half of that on average.
	measureOnFor = 30 * time.Second
	// measureOnPause is the pause before that, for a plugin that answers at once.
	measureOnPause = 100 * time.Millisecond
)

// measureOn measures the pods again whose use is a lower bound, as long as one of them would go first
// if it used the most that it can. Memory and tasks do not wait.
func (c *Chooser) measureOn(ctx context.Context, how Measuring, m *measured, candidates []pods.Pod) {
	if b, _ := eviction.Builtin(how.Signal); b.Condition.CheapToMeasure() {
		return
	}
	for end := time.Now().Add(measureOnFor); time.Now().Before(end) && ctx.Err() == nil; {
		open := m.unsettled(how.Signal, candidates)
		if len(open) == 0 {
			return
		}
		more := c.measure(ctx, how, open)
		m.mu.Lock()
		maps.Copy(m.got, more.got)
		m.done = more.done
		m.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(measureOnPause):
		}
	}
}

// unsettled returns the pods that would go before the first one by the kubelet's order if they used the
// most that they can.
func (m *measured) unsettled(s eviction.Signal, candidates []pods.Pod) (open []pods.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	bounded := func(p pods.Pod) bool {
		return slices.ContainsFunc(m.got[p.Row.UID].Usage, func(u eviction.SignalUsage) bool { return u.AtMost > 0 })
	}
	if !slices.ContainsFunc(candidates, bounded) {
		return nil
	}
	before, rows := rank.For(s), rowsOfCandidates(candidates, m.got)
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
func (c *Chooser) byHost(ctx context.Context, m *measured, s eviction.Signal, left time.Duration, candidates []pods.Pod) {
	missing := m.missing(candidates)
	stands := c.SourceStands == observe.Forever || c.SourceStands > 0 && len(m.got) > 0
	if c.Fallback == nil || len(missing) == 0 || stands && m.answered {
		return
	}
	ctx, late := c.whileLeft(ctx, true, left)
	defer late()
	answers := c.Fallback.Measure(ctx, s, rowsOf(missing, eviction.DetailPod))
	for _, a := range answers {
		m.take(a)
	}
	if len(answers) > 0 {
		c.Log.Warn("no plugin measured these pods, host measures them", "signal", s, "pods", len(answers), "of", len(candidates))
	}
	m.done = time.Now()
}

// take keeps an answer, unless it is unknown or its use of the signal cannot be.
func (m *measured) take(answer eviction.Measurement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := answer.UsageFor(m.signal)
	if len(answer.Usage) == 0 { // for memory the working set stands in
		used = answer.WorkingSetBytes.Value
	}
	if err := m.whole.Check(used); err != nil && answer.State == eviction.Measured {
		answer = eviction.Measurement{UID: answer.UID, Err: "uses " + err.Error()}
	}
	if answer.State == eviction.MeasurementUnknown {
		m.why[answer.UID] = printable.ClipText(answer.Err)
		return
	}
	m.got[answer.UID] = answer
	if len(m.got) == m.asked {
		m.done = time.Now()
	}
}

// missing returns the pods of asked that have no figure.
func (m *measured) missing(asked []pods.Pod) []pods.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(asked), func(p pods.Pod) bool { _, ok := m.got[p.Row.UID]; return ok })
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
func (u *lastUsage) remember(of *measured, candidates []pods.Pod, now time.Time) (old *pods.Stale) {
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
