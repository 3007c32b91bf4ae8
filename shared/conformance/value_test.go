package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func TestSoundPluginPasses(t *testing.T) {
	t.Parallel()
	p := newSound().plugin()
	p.Watcher = newSound()
	r, err := Value(t.Context(), p, Options{Reclaim: true, Config: []byte(`{"factor":2}`), patience: 4, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Checks {
		if c := &r.Checks[i]; c.Result != Passed {
			t.Error(c)
		}
	}
	if len(r.Checks) < 60 || r.Plugin == nil || r.Plugin.Name != "sound" || len(r.Plugin.Signals) != 2 {
		t.Errorf("%d checks of %+v", len(r.Checks), r.Plugin)
	}
}

// A valueFault is something wrong with a plugin. The first of fails must fail with
// text in what was seen; the others may.
type valueFault struct {
	spoil func(*sound, *eviction.Plugin)
	text  string
	fails []string
}

func TestFaultyValuesFailForTheRightReason(t *testing.T) {
	for name, f := range valueFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSound()
			p := s.plugin()
			f.spoil(s, &p)
			o := faultOptions(f.text, f.fails)
			o.Reclaim = true
			r, err := Value(t.Context(), p, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := judge(&r, f.text, f.fails...); err != nil {
				t.Error(err)
			}
		})
	}
}

func valueFaults() map[string]valueFault {
	all := map[string]valueFault{}
	for _, list := range []map[string]valueFault{describeFaults(), observeFaults(), measureFaults(), rankFaults(), reclaimFaults()} {
		maps.Copy(all, list)
	}
	if whole() {
		maps.Copy(all, watchFaults())
		maps.Copy(all, lateFaults())
	}
	return all
}

// whole reports whether there is time for all of the checks and for the slow ones
// among the faults. It needs no root, but a minute.
func whole() bool { return os.Getenv("EVICTD_TEST_ROOT") == "1" }

// heavy are the checks that cost most. With the race detector they are left out
// where they are not what is tested.
var heavy = []string{
	"observe-many-signals", "observe-parallel", "observe-cancelled", "measure-cancelled", "rank-500", "rank-parallel",
	"rank-cancelled", "large-message", "oversized-message", "memory",
}

// faultOptions are for a plugin that must fail some checks, the first one above
// all.
func faultOptions(text string, fails []string) Options {
	o := Options{Timeout: 2 * time.Minute} // machines that test are busy
	if !whole() {
		o.only = []string{laneOf(fails[0])}
	}
	if raceDetector {
		o.Skip = slices.DeleteFunc(slices.Clone(heavy), func(name string) bool { return slices.Contains(fails, name) })
	}
	if !strings.HasPrefix(text, "no answer within") {
		o.patience = 4
	}
	return o
}

// laneOf returns the lane of a check.
func laneOf(check string) string {
	first, _, _ := strings.Cut(check, "-")
	if first == "empty" || first == "large" || first == "oversized" {
		return "garbage"
	}
	return first
}

func describeFaults() map[string]valueFault {
	return map[string]valueFault{
		"refuses an older host without a word": {func(_ *sound, p *eviction.Plugin) {
			p.CheckHost = func(h eviction.Host) error {
				if h.Version == "" {
					return errors.New("")
				}
				return nil
			}
		}, "without a text", []string{"describe-older-host"}},
		"refuses features that it does not know": {func(_ *sound, p *eviction.Plugin) {
			p.CheckHost = func(h eviction.Host) error {
				if len(h.Features) > 0 {
					return fmt.Errorf("unknown feature %s", h.Features[0])
				}
				return nil
			}
		}, "unknown feature", []string{"describe-newer-host"}},
		"accepts unknown config fields": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(_ context.Context, req eviction.ConfigureRequest) error {
				var any map[string]any
				if len(req.Config) == 0 {
					return nil
				}
				return json.Unmarshal(req.Config, &any)
			}
		}, "accepted", []string{"configure-unknown-field"}},
		"does not name the field": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(_ context.Context, req eviction.ConfigureRequest) error {
				if checkConfig(req.Config) != nil {
					return errors.New("bad config")
				}
				return nil
			}
		}, "bad config", []string{"configure-unknown-field"}},
		"takes rubbish for no config": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(_ context.Context, req eviction.ConfigureRequest) error {
				if err := checkConfig(req.Config); err != nil && strings.Contains(err.Error(), "unknown field") {
					return err
				}
				return nil
			}
		}, `{"a":`, []string{"configure-not-json"}},
		"forgets its configuration when it refuses one": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(ctx context.Context, req eviction.ConfigureRequest) error {
				s.mu.Lock()
				s.config = "none"
				s.mu.Unlock()
				return s.soundConfigure(ctx, req)
			}
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.config == "none" {
					return nil, errors.New("not configured")
				}
				return soundRank(ctx, req)
			}
		}, "not configured", []string{"configure-keeps-former"}},
		"is configured only once": {func(s *sound, _ *eviction.Plugin) {
			var done atomic.Bool
			s.configure = func(ctx context.Context, req eviction.ConfigureRequest) error {
				if err := checkConfig(req.Config); err != nil {
					return err
				}
				if !done.CompareAndSwap(false, true) {
					return errors.New("configured already")
				}
				return nil
			}
		}, "configured already", []string{
			// What runs after it begins with a Configure.
			"configure-again", "configure-keeps-former", "configure-newer-host", "configure-during-calls",
			"observe", "measure", "rank", "reclaim-unknown-step", "garbage-describe",
		}},
		"needs a config": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(context.Context, eviction.ConfigureRequest) error { return errors.New("path is empty") }
		}, "path is empty (without any config", []string{"configure"}},
	}
}

func observeFaults() map[string]valueFault {
	// change is a fault that changes what is observed.
	change := func(do func(*eviction.ObserveReply, eviction.ObserveRequest)) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.observe = func(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
				reply, err := soundObserve(ctx, req)
				do(&reply, req)
				return reply, err
			}
		}
	}
	each := func(do func(*eviction.Observation)) func(*sound, *eviction.Plugin) {
		return change(func(reply *eviction.ObserveReply, _ eviction.ObserveRequest) {
			for i := range reply.Observations {
				do(&reply.Observations[i])
			}
		})
	}
	return map[string]valueFault{
		"forgets a signal": {change(func(reply *eviction.ObserveReply, _ eviction.ObserveRequest) {
			reply.Observations = reply.Observations[:min(1, len(reply.Observations))]
		}), "answered 0 times", []string{"observe"}},
		"observes twice": {change(func(reply *eviction.ObserveReply, _ eviction.ObserveRequest) {
			reply.Observations = append(reply.Observations, reply.Observations...)
		}), "answered 2 times", []string{"observe"}},
		"tells what was not asked": {change(func(reply *eviction.ObserveReply, req eviction.ObserveRequest) {
			if len(req.Signals) == 1 {
				reply.Observations = append(reply.Observations, eviction.Observation{Signal: eviction.PIDAvailable})
			}
		}), "pid.available", []string{"observe-only-asked"}},
		"negative capacity":       {each(func(o *eviction.Observation) { o.Available, o.Capacity = -5, -1 }), "capacity -1", []string{"observe-bounds"}},
		"more available than all": {each(func(o *eviction.Observation) { o.Available = 10 }), "available 10, capacity 9", []string{"observe-bounds"}},
		"time in the future":      {each(func(o *eviction.Observation) { o.Time = o.Time.Add(time.Hour) }), "it is", []string{"observe-time"}},
		"seconds for nanoseconds": {each(func(o *eviction.Observation) { o.Time = time.Unix(0, o.Time.UnixMilli()) }), "1970", []string{"observe-time"}},
		"knows nothing": {each(func(o *eviction.Observation) {
			*o = eviction.Observation{Signal: o.Signal, Err: "no idea"}
		}), "no idea", []string{"observe"}},
		"layout of others": {change(func(reply *eviction.ObserveReply, _ eviction.ObserveRequest) {
			reply.Layout = &eviction.LayoutReport{}
		}), "does not own", []string{"observe-layout"}},
		"no layout of its own": {func(_ *sound, p *eviction.Plugin) { p.OwnsLayout = true }, "reports none", []string{"observe-layout"}},
		"panics on a signal of others": {change(func(_ *eviction.ObserveReply, req eviction.ObserveRequest) {
			for _, s := range req.Signals {
				_ = map[eviction.Signal]*int{ownSignal: new(int), eviction.MemoryAvailable: new(int)}[s]
				if s != ownSignal && s != eviction.MemoryAvailable {
					panic("no such signal")
				}
			}
		}), "panic: no such signal", []string{"observe-unknown-signal", "observe-many-signals"}},
		"makes up any signal": {change(func(reply *eviction.ObserveReply, req eviction.ObserveRequest) {
			reply.Observations = reply.Observations[:0]
			for _, s := range req.Signals {
				reply.Observations = append(reply.Observations, eviction.Observation{Signal: s, State: eviction.Observed, Capacity: 1, Time: time.Now()})
			}
		}), "available 0, capacity 1", []string{"observe-unknown-signal", "observe-many-signals"}},
		"only before reclaim": {change(func(reply *eviction.ObserveReply, req eviction.ObserveRequest) {
			if req.View == eviction.ViewAfterReclaim {
				reply.Observations = nil
			}
		}), "AFTER_RECLAIM", []string{"observe-after-reclaim"}},
		"eight calls at a time": {func(s *sound, _ *eviction.Plugin) {
			var busy atomic.Int32
			s.observe = func(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
				defer busy.Add(-1)
				if busy.Add(1) > 8 {
					return eviction.ObserveReply{}, errors.New("busy")
				}
				<-time.After(10 * time.Millisecond)
				return soundObserve(ctx, req)
			}
		}, "busy", []string{"observe-parallel", "observe-cancelled"}},
		"never recovers from a cancelled call": {func(s *sound, _ *eviction.Plugin) {
			var broken atomic.Bool
			s.observe = func(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
				select {
				case <-ctx.Done():
					broken.Store(true)
				case <-time.After(3 * time.Millisecond):
				}
				if broken.Load() {
					return eviction.ObserveReply{}, errors.New("broken pipe")
				}
				return soundObserve(ctx, req)
			}
		}, "broken pipe", []string{"observe-cancelled"}},
	}
}

func measureFaults() map[string]valueFault {
	// also is a fault that does something after a sound Measure.
	also := func(do func(eviction.MeasureRequest, func(eviction.Measurement))) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.measure = func(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
				_ = soundMeasure(ctx, req, emit)
				do(req, emit)
				return nil
			}
		}
	}
	// each is a fault of every answer.
	each := func(do func(eviction.MeasureRequest, *eviction.Measurement)) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.measure = func(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
				return soundMeasure(ctx, req, func(m eviction.Measurement) {
					do(req, &m)
					emit(m)
				})
			}
		}
	}
	return map[string]valueFault{
		"measures strangers": {also(func(req eviction.MeasureRequest, emit func(eviction.Measurement)) {
			if len(req.Pods) == 500 {
				emit(eviction.Measurement{UID: "stranger", State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: ownSignal, Value: 1}}})
			}
		}), `"stranger"`, []string{"measure-only-asked"}},
		"answers when nothing was asked": {also(func(req eviction.MeasureRequest, emit func(eviction.Measurement)) {
			if len(req.Pods) == 0 {
				emit(eviction.Measurement{UID: "stranger"})
			}
		}), "1 answers", []string{"measure-none"}},
		"measures twice": {also(func(req eviction.MeasureRequest, emit func(eviction.Measurement)) {
			if len(req.Pods) > 1 {
				emit(eviction.Measurement{UID: req.Pods[0].UID})
			}
		}), "twice", []string{"measure-once", "measure-rank"}},
		"negative usage": {each(func(req eviction.MeasureRequest, m *eviction.Measurement) {
			m.State, m.Usage = eviction.Measured, []eviction.SignalUsage{{Signal: req.Signals[0], Value: -1}}
		}), "is -1", []string{"measure-figures", "measure-odd-uids"}},
		"usage of other signals": {each(func(_ eviction.MeasureRequest, m *eviction.Measurement) {
			m.Usage = []eviction.SignalUsage{{Signal: eviction.PIDAvailable, Value: 1}}
		}), "not asked for", []string{"measure-figures"}},
		"zero for nothing": {each(func(req eviction.MeasureRequest, m *eviction.Measurement) {
			if len(req.Pods) == 500 {
				m.State, m.Usage = eviction.Measured, []eviction.SignalUsage{{Signal: ownSignal}}
			}
		}), "zeros", []string{"measure-no-pod"}},
		"always goes into containers": {each(func(_ eviction.MeasureRequest, m *eviction.Measurement) {
			m.Containers = []eviction.ContainerMeasurement{{Name: "main"}}
		}), "DETAIL_POD", []string{"measure-detail"}},
		"follows paths in uids": {each(func(_ eviction.MeasureRequest, m *eviction.Measurement) {
			if strings.Contains(m.UID, "..") {
				m.State, m.WorkingSetBytes = eviction.Measured, eviction.Some(1<<30)
			}
		}), "is measured", []string{"measure-odd-uids"}},
		"refuses odd uids with a panic": {also(func(req eviction.MeasureRequest, _ func(eviction.Measurement)) {
			for i := range req.Pods {
				_ = req.Pods[i].UID[0]
			}
		}), "panic", []string{"measure-odd-uids"}},
		"mixes calls up": {func(s *sound, _ *eviction.Plugin) {
			var mu sync.Mutex
			var pods []eviction.Pod
			s.measure = func(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
				mu.Lock()
				pods = req.Pods
				mu.Unlock()
				<-time.After(10 * time.Millisecond)
				mu.Lock()
				req.Pods = pods
				mu.Unlock()
				return soundMeasure(ctx, req, emit)
			}
		}, "of another call", []string{"measure-parallel", "measure-cancelled"}},
	}
}

func rankFaults() map[string]valueFault {
	change := func(do func(eviction.RankRequest, []eviction.Ranked) []eviction.Ranked) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				ranking, err := soundRank(ctx, req)
				return do(req, ranking), err
			}
		}
	}
	refuse := func(when func(eviction.RankRequest) error) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				if err := when(req); err != nil {
					return nil, err
				}
				return soundRank(ctx, req)
			}
		}
	}
	return map[string]valueFault{
		"ranks strangers": {change(func(_ eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			if len(ranking) == 100 {
				ranking[5].UID = "stranger"
			}
			return ranking
		}), `"stranger" was never sent`, []string{"rank-only-candidates"}},
		"ranks twice": {change(func(_ eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			if len(ranking) == 100 {
				ranking[5] = ranking[6]
			}
			return ranking
		}), "twice", []string{"rank-once"}},
		"ranks more than there are": {change(func(_ eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			return append(ranking, eviction.Ranked{UID: "one"}, eviction.Ranked{UID: "more"})
		}), "102 pods in a ranking of 100", []string{"rank", "measure-rank"}},
		"rolls dice": {change(func(_ eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			rand.Shuffle(len(ranking), func(i, k int) { ranking[i], ranking[k] = ranking[k], ranking[i] })
			return ranking
		}), "first [", []string{"rank-deterministic", "rank-independent", "rank-ties", "rank-parallel", "measure-rank", "configure-keeps-former"}},
		"remembers former calls": {func(s *sound, _ *eviction.Plugin) {
			seen := map[string]eviction.Candidate{}
			var mu sync.Mutex
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				mu.Lock()
				defer mu.Unlock()
				for i, c := range req.Candidates {
					if len(req.Candidates) != 100 {
						break
					}
					if former, ok := seen[c.Pod.UID]; ok {
						req.Candidates[i].Pod.Priority += former.Pod.Priority
					}
					seen[c.Pod.UID] = c
				}
				return soundRank(ctx, req)
			}
		}, "then [", []string{"rank-independent", "rank-deterministic"}},
		"does not keep ties": {change(func(req eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			if len(ranking) == 30 && req.Candidates[1].Pod.Priority == req.Candidates[0].Pod.Priority {
				slices.Reverse(ranking)
			}
			return ranking
		}), "not the order of the candidates", []string{"rank-ties"}},
		"expects candidates": {change(func(req eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			_ = req.Candidates[0]
			return ranking
		}), "0 candidates", []string{"rank-few", "empty-messages"}},
		"expects prices": {refuse(func(req eviction.RankRequest) error {
			for _, c := range req.Candidates {
				var price float64
				if text, ok := c.Pod.Annotations["price"]; ok && json.Unmarshal([]byte(text), &price) != nil {
					return fmt.Errorf("pod %s: price %.20q is not a number", c.Pod.Name, text)
				}
			}
			return nil
		}), "is not a number", []string{"rank-odd-rows"}},
		"panics on an empty uid": {refuse(func(req eviction.RankRequest) error {
			for _, c := range req.Candidates {
				_ = c.Pod.UID[0]
			}
			return nil
		}), "panic", []string{"rank-impossible-rows"}},
		"shares a buffer": {func(s *sound, _ *eviction.Plugin) {
			var mu sync.Mutex
			var rows []eviction.Candidate
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				mu.Lock()
				rows = req.Candidates
				mu.Unlock()
				<-time.After(2 * time.Millisecond)
				mu.Lock()
				req.Candidates = rows
				mu.Unlock()
				return soundRank(ctx, req)
			}
		}, "", []string{"rank-parallel", "rank-cancelled", "configure-during-calls", "measure-rank"}},
		"refuses what is newer": {refuse(func(req eviction.RankRequest) error {
			if len(req.Candidates) == 10 && req.Candidates[3].Measurement.State == eviction.MeasurementUnknown {
				return errors.New("unknown state")
			}
			return nil
		}), "unknown state", []string{"rank-newer-host"}},
	}
}

func reclaimFaults() map[string]valueFault {
	change := func(do func(*eviction.Reclaimed)) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.reclaim = func(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
				r, err := soundReclaim(ctx, req, progress)
				do(&r)
				return r, err
			}
		}
	}
	return map[string]valueFault{
		"runs any step": {func(s *sound, _ *eviction.Plugin) {
			s.reclaim = func(context.Context, eviction.ReclaimRequest, func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
				return eviction.Reclaimed{}, nil
			}
		}, "accepted", []string{"reclaim-unknown-step"}},
		"frees less than nothing": {change(func(r *eviction.Reclaimed) {
			if r.Bytes > 0 {
				r.Bytes = -2
			}
		}), "freed -2 bytes", []string{"reclaim", "reclaim-again", "reclaim-cancelled"}},
		"frees only once": {func(s *sound, _ *eviction.Plugin) {
			var done atomic.Int32
			s.reclaim = func(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
				if req.Step == "tidy" && done.Add(1) > 1 {
					panic("nothing left")
				}
				return soundReclaim(ctx, req, progress)
			}
		}, "nothing left", []string{"reclaim-again", "reclaim-cancelled"}},
	}
}

func watchFaults() map[string]valueFault {
	as := func(watch func(context.Context, eviction.WatchRequest, func(eviction.Wake)) error) func(*sound, *eviction.Plugin) {
		return func(s *sound, p *eviction.Plugin) { s.watch, p.Watcher = watch, s }
	}
	flood := func(signal eviction.Signal, every time.Duration) func(*sound, *eviction.Plugin) {
		return as(func(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-tick.C:
					if signal != "" {
						wake(eviction.Wake{Signal: signal, Cause: "whim"})
					} else if len(req.Thresholds) > 0 {
						wake(eviction.Wake{Signal: req.Thresholds[0].Signal, Cause: "whim"})
					}
				}
			}
		})
	}
	return map[string]valueFault{
		"ends its watch": {as(func(context.Context, eviction.WatchRequest, func(eviction.Wake)) error {
			return nil
		}), "ended", []string{"watch"}},
		"floods":             {flood("", 5*time.Millisecond), "wakes in", []string{"watch-quiet", "watch-only-asked", "watch-empty"}},
		"wakes for others":   {flood(eviction.PIDAvailable, 100*time.Millisecond), "pid.available", []string{"watch-only-asked"}},
		"expects thresholds": {as(panicsWithoutThresholds), "panic", []string{"watch-empty", "empty-messages"}},
	}
}

func panicsWithoutThresholds(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	_ = req.Thresholds[0]
	return soundWatch(ctx, req, wake)
}

// lateFaults are those whose time is the deadline of a call.
func lateFaults() map[string]valueFault {
	return map[string]valueFault{
		"is quadratic": {func(s *sound, _ *eviction.Plugin) {
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				<-time.After(time.Duration(len(req.Candidates)*len(req.Candidates)) * 5 * time.Microsecond)
				return soundRank(ctx, req)
			}
		}, "no answer within 1s", []string{"rank-500"}},
		"caches": {func(s *sound, _ *eviction.Plugin) {
			start := time.Now()
			s.observe = func(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
				reply, err := soundObserve(ctx, req)
				for i := range reply.Observations {
					reply.Observations[i].Time = start
				}
				return reply, err
			}
		}, "and then", []string{"observe-fresh"}},
		"hangs in Configure": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(ctx context.Context, _ eviction.ConfigureRequest) error {
				<-ctx.Done()
				return ctx.Err()
			}
		}, "no answer within 2s", []string{"configure"}},
		"hangs in Observe": {func(s *sound, _ *eviction.Plugin) {
			s.observe = func(ctx context.Context, _ eviction.ObserveRequest) (eviction.ObserveReply, error) {
				<-time.After(observeTime + 200*time.Millisecond)
				return eviction.ObserveReply{}, ctx.Err()
			}
		}, "no answer within 1s", []string{"observe", "empty-messages"}},
		"keeps its answers for too long": {func(s *sound, _ *eviction.Plugin) {
			s.measure = func(ctx context.Context, _ eviction.MeasureRequest, _ func(eviction.Measurement)) error {
				<-ctx.Done()
				return nil
			}
		}, "no answer within 5s", []string{"measure", "empty-messages"}},
	}
}
