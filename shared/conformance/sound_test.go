package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// customSignal is the signal of the plugin under test.
const customSignal eviction.Signal = "sound.example/things"

// A sound is a plugin with all capabilities that keeps the contract. Faulty ones
// replace one of its methods.
type sound struct {
	mu     sync.Mutex
	config string

	configure func(context.Context, eviction.ConfigureRequest) error
	observe   func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error)
	measure   func(context.Context, eviction.MeasureRequest, func(eviction.Measurement)) error
	watch     func(context.Context, eviction.WatchRequest, func(eviction.Wake)) error
	rank      func(context.Context, eviction.RankRequest) ([]eviction.Ranked, error)
	reclaim   func(context.Context, eviction.ReclaimRequest, func(eviction.Reclaimed)) (eviction.Reclaimed, error)
	metrics   func(context.Context) ([]eviction.Metric, error)
}

func newSound() *sound {
	s := &sound{config: "none"}
	s.configure, s.observe, s.measure, s.watch, s.rank, s.reclaim = s.soundConfigure, soundObserve, soundMeasure, soundWatch, soundRank, soundReclaim
	s.metrics = soundMetrics
	return s
}

func (s *sound) Configure(ctx context.Context, req eviction.ConfigureRequest) error {
	return s.configure(ctx, req)
}

func (s *sound) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return s.observe(ctx, req)
}

func (s *sound) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	return s.measure(ctx, req, emit)
}

func (s *sound) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	return s.watch(ctx, req, wake)
}

func (s *sound) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	return s.rank(ctx, req)
}

func (s *sound) Reclaim(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	return s.reclaim(ctx, req, progress)
}

func (s *sound) Metrics(ctx context.Context) ([]eviction.Metric, error) { return s.metrics(ctx) }

// plugin is everything but Watch, which takes its time to be checked.
func (s *sound) plugin() eviction.Plugin {
	return eviction.Plugin{
		Name: "sound", Version: "1.0.0", WantLabels: []string{"team"}, WantAnnotations: []string{"price"},
		Signals: []eviction.SignalSpec{
			{Signal: eviction.MemoryAvailable},
			{
				Signal: customSignal, Definition: &eviction.Definition{
					Unit: "things", Format: eviction.FormatDecimalSI, Resource: string(customSignal), Condition: "sound.example/Pressure",
				},
				ReclaimSteps: []eviction.ReclaimStep{{Name: "tidy"}},
			},
		},
		Configurer: s, Observer: s, Measurer: s, Ranker: s, Reclaimer: s, Meter: s,
	}
}

func (s *sound) soundConfigure(_ context.Context, req eviction.ConfigureRequest) error {
	if err := checkConfig(req.Config); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = string(req.Config)
	return nil
}

func checkConfig(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	var config struct {
		Factor int `json:"factor"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(&config)
}

func soundObserve(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	var reply eviction.ObserveReply
	for _, signal := range req.Signals {
		if signal == customSignal || signal == eviction.MemoryAvailable {
			o := eviction.Observation{Signal: signal, State: eviction.Observed, Available: 7, Capacity: 9, Time: time.Now()}
			if signal == eviction.MemoryAvailable {
				m, err := nodefs.FS{Root: "/"}.ReadNodeMemory(nodefs.MemoryRules{MemAvailable: true})
				if err != nil {
					return reply, err
				}
				o.Available, o.Capacity = m.AvailableBytes, m.CapacityBytes
			}
			reply.Observations = append(reply.Observations, o)
		}
	}
	return reply, nil
}

func soundMeasure(_ context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	for i := range req.Pods {
		emit(eviction.Measurement{UID: req.Pods[i].UID, State: eviction.NoStats})
	}
	return nil
}

func soundWatch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for over := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		m, err := nodefs.FS{Root: "/"}.ReadNodeMemory(nodefs.MemoryRules{MemAvailable: true})
		if err != nil {
			return err
		}
		for _, t := range req.Thresholds {
			if t.Signal == eviction.MemoryAvailable {
				was := over
				if over = m.AvailableBytes < t.Threshold.Of(m.CapacityBytes); over && !was {
					wake(eviction.Wake{Signal: t.Signal, Cause: "poll"})
				}
			}
		}
	}
}

func soundRank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	sorted := slices.Clone(req.Candidates)
	slices.SortStableFunc(sorted, func(a, b eviction.Candidate) int {
		return cmp.Or(cmp.Compare(a.Pod.Priority, b.Pod.Priority), cmp.Compare(b.Measurement.UsageFor(req.Signal), a.Measurement.UsageFor(req.Signal)))
	})
	return inOrder(sorted), nil
}

func inOrder(candidates []eviction.Candidate) []eviction.Ranked {
	ranking := make([]eviction.Ranked, 0, len(candidates))
	for i := range candidates {
		ranking = append(ranking, eviction.Ranked{UID: candidates[i].Pod.UID})
	}
	return ranking
}

// tidied counts the reclaims: there is something else to reclaim each time.
var tidied atomic.Int64

func soundReclaim(_ context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	if req.Step != "tidy" {
		return eviction.Reclaimed{}, fmt.Errorf("step %q, want tidy", req.Step)
	}
	released := tidied.Add(1)
	progress(eviction.Reclaimed{Bytes: 1})
	return eviction.Reclaimed{Bytes: released}, nil
}

// scraped counts the calls of Metrics.
var scraped atomic.Int64

func soundMetrics(context.Context) ([]eviction.Metric, error) {
	calls, free := scraped.Add(1), rand.Float64()
	return []eviction.Metric{
		{Name: "calls_total", Help: "Calls.", Type: eviction.Counter, Samples: []eviction.Sample{{Labels: map[string]string{"call": "metrics"}, Value: float64(calls)}, {Value: 1}}},
		{Name: "free", Help: "Free things.", Samples: []eviction.Sample{{Value: free}}},
	}, nil
}

// failures lists the failed checks by name.
func failures(r *Report) []string {
	var names []string
	for i := range r.Checks {
		if r.Checks[i].Result == Failed {
			names = append(names, r.Checks[i].Name)
		}
	}
	return names
}

// judge wants the first of names to have failed, and nothing that is not among
// them, with all that an author needs to know and text in what was seen.
func judge(r *Report, text string, names ...string) error {
	var errs []error
	failed := failures(r)
	if !slices.Contains(failed, names[0]) {
		errs = append(errs, fmt.Errorf("%s did not fail", names[0]))
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.Result != Failed {
			continue
		}
		switch {
		case !slices.Contains(names, c.Name):
			errs = append(errs, fmt.Errorf("must not fail: %s", c))
		case c.RPC == "" || c.Input == "" || c.Expected == "" || c.Seen == "":
			errs = append(errs, fmt.Errorf("does not say all: %s", c))
		case c.Name == names[0] && !strings.Contains(c.Seen, text):
			errs = append(errs, fmt.Errorf("does not say %q: %s", text, c))
		}
	}
	return errors.Join(errs...)
}
