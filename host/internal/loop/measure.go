package loop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// measure has the pods measured by who is in charge, the first of measurers, and
// those that it could not measure by the others.
func (l *Loop) measure(ctx context.Context, measurers []registry.Provider, at eviction.PassView, s eviction.Signal, detail eviction.Detail, candidates []pods.Pod) map[string]eviction.Measurement {
	m := &measuring{loop: l, at: at, signal: s, detail: detail, got: make(map[string]eviction.Measurement, len(candidates))}
	m.run(ctx, measurers, candidates, nil, eviction.RankRequest{})
	return m.got
}

// measuring is pods being measured.
type measuring struct {
	loop   *Loop
	at     eviction.PassView
	signal eviction.Signal
	detail eviction.Detail

	mu  sync.Mutex
	got map[string]eviction.Measurement
	// done is when the last of all asked had an answer.
	asked int
	done  time.Time
	// heard: a plugin has said what it knows.
	heard bool
}

// run asks one measurer after the other until all pods are measured. If the first
// of them is the ranker in charge too, it may rank in the same call.
func (m *measuring) run(ctx context.Context, measurers []registry.Provider, candidates []pods.Pod, rankers []registry.Provider, rank eviction.RankRequest) (ranked eviction.Ranking) {
	m.asked = len(candidates)
	missing := candidates
	for i, p := range measurers {
		if len(missing) == 0 {
			break
		}
		req := eviction.MeasureRequest{
			PassView: m.at, Detail: m.detail,
			Signals: []eviction.Signal{p.As}, Pods: rowsOf(missing, m.detail),
		}
		if m.loop.silence.hung(p.Instance) {
			continue
		}
		take := func(answer eviction.Measurement) {
			if p.As != m.signal {
				renameUsage(&answer, p.As, m.signal)
			}
			m.take(answer)
		}
		limited, cancel := m.loop.silence.patience(ctx, p.Instance, m.loop.Patience)
		var err error
		if both, ok := p.Plugin.Measurer.(eviction.MeasureRanker); ok && i == 0 && len(rankers) > 0 && rankers[0] == p {
			rank.Signal = p.As
			ranked, err = both.MeasureAndRank(limited, req, rank, take)
		} else {
			err = p.Plugin.Measurer.Measure(limited, req, take)
		}
		cancel()
		m.loop.silence.measured(p.Instance, err)
		m.heard = m.heard || err == nil || errors.Is(err, eviction.ErrRefused)
		if err != nil {
			m.loop.Metrics.CallFailed(p.Name, "measure", err)
			m.loop.Log.Error("measuring pods failed", "plugin", p.Name, "signal", m.signal, "error", err)
		}
		missing = m.missing(missing)
		if len(missing) > 0 {
			ranked = eviction.Ranking{} // It was not by the figures that will be had.
		}
	}
	if m.done.IsZero() {
		m.done = time.Now()
	}
	return ranked
}

// renameUsage has m's use of one name of a filesystem as that of another one. What m
// shares with others stays as it is.
func renameUsage(m *eviction.Measurement, from, to eviction.Signal) {
	m.Usage = slices.Clone(m.Usage)
	for i := range m.Usage {
		if m.Usage[i].Signal == from {
			m.Usage[i].Signal = to
		}
	}
}

func (m *measuring) take(answer eviction.Measurement) {
	if answer.State == eviction.MeasurementUnknown {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got[answer.UID] = answer
	if len(m.got) == m.asked {
		m.done = time.Now()
	}
}

// missing are those of asked that have no answer.
func (m *measuring) missing(asked []pods.Pod) []pods.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	var still []pods.Pod
	for _, c := range asked {
		if _, ok := m.got[c.Row.UID]; !ok {
			still = append(still, c)
		}
	}
	return still
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

// lastUsage are the last figures of pods by signal and uid. It is safe for
// concurrent use.
type lastUsage struct {
	mu       sync.Mutex
	bySignal map[eviction.Signal]map[string]eviction.Measurement
}

// remember keeps the figures for passes in which measuring fails, and gives pods
// without figures their last ones. Those of pods that are gone are forgotten.
func (u *lastUsage) remember(s eviction.Signal, got map[string]eviction.Measurement, candidates []pods.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last := u.bySignal[s]
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
	u.bySignal[s] = got
}

// forget drops the figures of a signal.
func (u *lastUsage) forget(s eviction.Signal) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.bySignal, s)
}

// measureVictim looks into the containers of the victim, for the message. If
// that fails the message does without them.
func (c *chooser) measureVictim(ctx context.Context, victim pods.Pod, known eviction.Measurement) eviction.Measurement {
	if known.State != eviction.Measured || len(known.Containers) > 0 {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, max(detailDeadline, c.Patience))
	defer cancel()
	measurers := c.roster.Serving(c.layout, c.threshold.Signal, eviction.CanMeasure)
	detailed, ok := c.measure(ctx, measurers, c.at, c.threshold.Signal, eviction.DetailContainers, []pods.Pod{victim})[victim.Row.UID]
	if !ok || detailed.State != eviction.Measured {
		return known
	}
	return detailed
}
