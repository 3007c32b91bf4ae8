package recorder

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// What is missing is what was lost since most was available, and whoever uses more than at that
// time has taken it.
func TestARecordHasWhoTookWhatIsMissing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name string
		// before is the use of pods at the second of three measurements, when 4 GiB of the
		// node's memory were available. Half a GiB is now.
		before map[string]int64
		want   decision.Growth
	}{
		{"a pod by itself", map[string]int64{"web": 2 * gibibyte, "report": gibibyte / 2}, decision.Growth{
			Pods: 5 * gibibyte / 2, Most: []decision.Grown{{UID: "report", Pod: "shop/report", By: 5 * gibibyte / 2}},
		}},
		{"a daemon, while a pod gave back", map[string]int64{"web": 3 * gibibyte, "report": 3 * gibibyte}, decision.Growth{Pods: -gibibyte}},
		{"a pod that is new, beside one that has ended", map[string]int64{"web": gibibyte, "gone": gibibyte}, decision.Growth{
			Pods: 3 * gibibyte, Most: []decision.Grown{{UID: "report", Pod: "shop/report", By: 3 * gibibyte}, {UID: "web", Pod: "shop/web", By: gibibyte}},
		}},
	} {
		k := New(Options{})
		p := evicted(now)
		p.Decision.Candidates[1].Started = now.Add(-time.Minute).Unix()
		p.Decision.Candidates[0].Started = now.Add(-time.Hour).Unix()
		for i, available := range []int64{1, 4, 3} {
			at := now.Add(time.Duration(i-6) * time.Minute)
			of := map[string]int64{"web": 9 * gibibyte}
			if available == 4 {
				of = c.before
			}
			k.usage.add(at, Usage{eviction.MemoryAvailable: Shares{Available: available * gibibyte, Used: of}})
		}
		c.want.SinceMS, c.want.Lost = -5*60_000, 7*gibibyte/2
		got := k.usage.growth(p.Decision, hard.Signal)
		if got == nil || got.SinceMS != c.want.SinceMS || got.Lost != c.want.Lost || got.Pods != c.want.Pods || !slices.Equal(got.Most, c.want.Most) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestWhoTookWhatIsMissingMayNotBeKnown(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	k := New(Options{})
	p := evicted(now)
	if got := k.usage.growth(p.Decision, hard.Signal); got != nil {
		t.Errorf("pods were never counted: %+v", got)
	}
	k.usage.add(now.Add(-time.Minute), Usage{eviction.MemoryAvailable: Shares{Available: gibibyte, Used: map[string]int64{"web": 2 * gibibyte}}})
	// Of a pod that has run for long and was not counted nobody knows what it has taken.
	if got := k.usage.growth(p.Decision, hard.Signal); got != nil {
		t.Errorf("a pod that was not counted: %+v", got)
	}
	p.Decision.Candidates[1].Started = now.Unix()
	if got := k.usage.growth(p.Decision, hard.Signal); got == nil || got.Pods != 3*gibibyte {
		t.Errorf("a pod that was not there yet: %+v", got)
	}
	p.Decision.Observations[0].Available = 2 * gibibyte
	if got := k.usage.growth(p.Decision, hard.Signal); got != nil {
		t.Errorf("nothing is missing: %+v", got)
	}
}

// A critical pod that took what is missing was not measured, and the record said that no pod took it.
func TestAPodThatMayNotGoIsMeasuredForWhatGrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := map[string]int64{"web": 2 * gibibyte, "report": 3 * gibibyte, "stray": gibibyte}
		k := New(Options{Usage: func(context.Context) (Usage, error) {
			return Usage{eviction.MemoryAvailable: {Available: 4 * gibibyte, Used: maps.Clone(used)}}, nil
		}})
		ctx, end := context.WithCancel(t.Context())
		go k.usage.run(ctx, slog.New(slog.DiscardHandler))
		synctest.Wait() // the first sample
		used["stray"] += 7 * gibibyte / 2
		got := k.usage.growth(evicted(time.Now()).Decision, hard.Signal)
		if want := (decision.Grown{UID: "stray", Pod: "shop/stray", By: 7 * gibibyte / 2}); got == nil || !got.Protected || got.Pods != got.Lost || len(got.Most) != 1 || got.Most[0] != want {
			t.Errorf("%+v, want %+v alone", got, want)
		}
		end()
		synctest.Wait()
		if got := k.usage.growth(evicted(time.Now()).Decision, hard.Signal); got == nil || got.Protected || got.Pods != 0 {
			t.Errorf("when it cannot be measured: %+v", got)
		}
	})
}

func TestPodsAreCountedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := 0
		k := New(Options{Store: &memory{}, Count: func(error) {}, Log: slog.New(slog.DiscardHandler), Usage: func(context.Context) (Usage, error) {
			counts++
			return Usage{}, nil
		}})
		ctx, end := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { k.Run(ctx); close(ran) }()
		time.Sleep(20*time.Minute + time.Second)
		end()
		<-ran
		synctest.Wait()
		if counts != 11 || len(k.usage.all) != 6 || len(k.usage.when) != 6 {
			t.Errorf("counted %d times, %d are kept; want 11, and those of ten minutes", counts, len(k.usage.all))
		}
	})
}

// Pods were counted each two minutes: of a pod that took all memory within seconds it was not known when.
func TestPodsAreCountedWhileMemoryFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var available atomic.Int64
		available.Store(8 * gibibyte)
		read := func() []eviction.Observation {
			return []eviction.Observation{{Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: available.Load(), Capacity: 8 * gibibyte}}
		}
		k := New(Options{
			Store: &memory{}, Count: func(error) {}, Log: slog.New(slog.DiscardHandler), Samplers: []func() []eviction.Observation{read},
			Usage: func(context.Context) (Usage, error) {
				first := "shop/web"
				if available.Load() < 4*gibibyte {
					first = "shop/report"
				}
				return Usage{eviction.MemoryAvailable: {Available: available.Load(), Used: map[string]int64{"web": gibibyte, "report": 8*gibibyte - available.Load()}, First: first}}, nil
			},
		})
		ctx, end := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { k.Run(ctx); close(ran) }()
		time.Sleep(time.Minute + time.Second/2) // between two samples of the signal
		for range 30 {
			available.Add(-gibibyte / 4)
			time.Sleep(time.Second)
		}
		// A pod that replaces a victim grows from where it was before, not from where it went.
		available.Store(8 * gibibyte)
		time.Sleep(time.Second)
		available.Store(4 * gibibyte)
		time.Sleep(time.Second)
		k.usage.mu.Lock()
		if at := k.usage.when[len(k.usage.when)-1]; time.Since(at) > time.Second {
			t.Errorf("counted %v ago, want it when memory fell again", time.Since(at))
		}
		k.usage.mu.Unlock()
		available.Store(gibibyte / 2)
		time.Sleep(time.Second)
		p := evicted(time.Now())
		k.Why(p.Decision)
		end()
		<-ran
		synctest.Wait()
		d := p.Decision
		if len(d.Usage) < usageKept/2 || len(d.Usage) > usageKept || !slices.Equal(d.Curves, []string{"shop/report", "shop/web"}) {
			t.Fatalf("%d samples of %v", len(d.Usage), d.Curves)
		}
		for i, s := range d.Usage {
			if grown := s.Used[0]; (s.First == "shop/report") != (grown > 4*gibibyte) || s.Used[1] != gibibyte || i > 0 && s.MS <= d.Usage[i-1].MS {
				t.Errorf("sample %d: %+v", i, s)
			}
		}
	})
}

// Of a full disk it was never said what grew, though the decision before had measured all pods.
func TestWhatGrewOnADiskComesFromTheDecisionBefore(t *testing.T) {
	var m memory
	disk := hard
	disk.Signal = eviction.NodeFsAvailable
	pass := func(at time.Time, available, report int64) loop.Conclusion {
		p := evicted(at)
		p.Decision.Thresholds = decision.Thresholds([]policy.Threshold{disk}, &policy.Assessment{}, at)
		p.Decision.Act(disk)
		p.Decision.Observations[0].Signal, p.Decision.Observations[0].Available = disk.Signal, available
		p.Decision.Candidates[1].Usage = report
		p.Evicted[0].Signal, p.Evicted[0].EvictedAt = disk.Signal, at
		return p
	}
	now := time.Now().Add(2 * time.Minute) // not just after the start
	run(t, &m, pass(now.Add(-time.Minute), 3*gibibyte, gibibyte), pass(now, gibibyte, 3*gibibyte))
	if len(m.records) != 2 || m.records[0].Growth != nil {
		t.Fatalf("%d records, the first with %+v", len(m.records), m.records[0].Growth)
	}
	if used := m.records[1].Victim.Used; used == nil || *used != 3*gibibyte {
		t.Errorf("used %v, want 3Gi", used)
	}
	var walked memory // not to the end
	before, partly := pass(now.Add(-time.Minute), 3*gibibyte, gibibyte), pass(now, gibibyte, 3*gibibyte)
	partly.Decision.Candidates[1].AtMost = 4 * gibibyte
	run(t, &walked, before, partly)
	if r := walked.records[1]; r.Growth != nil || r.Victim.Used != nil {
		t.Errorf("of a use that is a lower bound: grew %+v, used %v", r.Growth, r.Victim.Used)
	}
	want := decision.Grown{UID: "report", Pod: "shop/report", By: 2 * gibibyte}
	if g := m.records[1].Growth; g == nil || g.Lost != 2*gibibyte || len(g.Most) != 1 || g.Most[0] != want || g.Protected {
		t.Errorf("what grew: %+v, want %+v", g, want)
	}
}
