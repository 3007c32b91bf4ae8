package loop

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// memoryObserver is a custom plugin that observes the node's memory.
type memoryObserver func() (eviction.ObserveReply, error)

func (f memoryObserver) Observe(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return f()
}

// addObserver puts a custom observer of memory before the built-in one.
func (n *node) addObserver(f memoryObserver) {
	p := &eviction.Plugin{Name: "acme", Observer: f, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}}}
	n.rankers = append(n.rankers, &registry.Instance{Name: "acme", Generation: 9, Plugin: p})
}

func says(o eviction.Observation) memoryObserver {
	return func() (eviction.ObserveReply, error) {
		o.Signal = eviction.MemoryAvailable
		return eviction.ObserveReply{Observations: []eviction.Observation{o}}, nil
	}
}

func saysAvailable(available, capacity int64) memoryObserver {
	return func() (eviction.ObserveReply, error) {
		return says(eviction.Observation{State: eviction.Observed, Available: available, Capacity: capacity, Time: time.Now()})()
	}
}

// liars returns custom observers of a node that has 512Mi of 8Gi left.
func liars(n *node) map[string]memoryObserver {
	began := time.Now()
	return map[string]memoryObserver{
		"plenty":                   saysAvailable(6*gi, 8*gi),
		"absent":                   says(eviction.Observation{State: eviction.Absent}),
		"unknown":                  says(eviction.Observation{State: eviction.Unknown, Err: "do not know"}),
		"an error":                 func() (eviction.ObserveReply, error) { return eviction.ObserveReply{}, eviction.ErrRefused },
		"nothing":                  func() (eviction.ObserveReply, error) { return eviction.ObserveReply{}, nil },
		"yesterday's figure":       saysAvailable(4*gi, 8*gi),
		"the least, of too little": saysAvailable(gi/2-mi, gi/2),
		"one sample for ever": func() (eviction.ObserveReply, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return says(eviction.Observation{State: eviction.Observed, Available: n.available - mi, Capacity: 8 * gi, Time: began})()
		},
		"a time that is ahead": func() (eviction.ObserveReply, error) {
			return says(eviction.Observation{State: eviction.Observed, Available: 6 * gi, Capacity: 8 * gi, Time: time.Now().Add(time.Second)})()
		},
	}
}

// A custom observer whose word was taken kept the node from evicting for as long as it
// liked, while the built-in plugin beside it was not asked.
func TestAPlausibleLieDoesNotKeepTheHog(t *testing.T) {
	for beside, breaks := range map[string]func(n *node){
		"the built-in plugin":            func(*node) {},
		"the built-in plugin down":       func(n *node) { n.leave(errBroken) },
		"the built-in plugin removed":    func(n *node) { n.leave(nil) },
		"the built-in plugin that fails": func(n *node) { n.fail(failing) },
	} {
		for lie := range liars(nil) {
			t.Run(lie+" beside "+beside, func(t *testing.T) {
				story(t, func(t *testing.T, n *node) {
					n.fallback, n.sampleTimes = &byHand{node: n}, true
					n.addObserver(liars(n)[lie])
					s := settings(t, hard("10%"))
					n.run(s, rundir.State{})
					n.settle()
					n.set(gi / 2)
					breaks(n)
					n.changes()
					n.after(s.MonitoringInterval + time.Second)
					if got := n.count("kill big"); got != 1 {
						t.Errorf("%d kills of big, want 1: %q", got, n.story())
					}
				})
			})
		}
	}
}

// What a custom observer knows beyond the kernel counts as it did, and so does all that
// it says where the configuration names it.
func TestACustomObserverAddsPressureAndMayBeTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		available int64
		custom    memoryObserver
		assigned  bool
		evicts    bool
	}{
		"pressure that the kernel does not tell": {4 * gi, saysAvailable(gi/2, 8*gi), false, true},
		"the same, assigned":                     {4 * gi, saysAvailable(gi/2, 8*gi), true, true},
		"plenty":                                 {gi / 2, saysAvailable(6*gi, 8*gi), false, true},
		"plenty, assigned":                       {gi / 2, saysAvailable(6*gi, 8*gi), true, false},
		"plenty, and there is":                   {4 * gi, saysAvailable(6*gi, 8*gi), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				reads := &byHand{node: n}
				n.fallback = reads
				n.addObserver(c.custom)
				if c.assigned {
					n.assigned = eviction.MemoryAvailable
				}
				n.set(c.available)
				n.run(settings(t, hard("1Gi")), rundir.State{})
				n.after(time.Second)
				if got := n.count("kill big") > 0; got != c.evicts {
					t.Errorf("evicted: %v, want %v: %q", got, c.evicts, n.story())
				}
				if asked := n.count(" observe") > 0; asked == c.assigned {
					t.Errorf("the built-in plugin was asked: %v", asked)
				}
				if n.count("by hand") > 0 {
					t.Error("the host has looked although the built-in plugin answers")
				}
			})
		})
	}
}

// With figures of the kubelet's summary the built-in plugin is asked, and says what the
// summary says; the host knows nothing beside it.
func TestWithASummaryTheSecondLookIsTheSummary(t *testing.T) {
	for down, want := range map[bool]int{false: 1, true: 0} {
		story(t, func(t *testing.T, n *node) {
			n.fallback, n.stands = &byHand{node: n}, true
			n.addObserver(saysAvailable(6*gi, 8*gi))
			n.set(gi / 2)
			if down {
				n.leave(errBroken)
			}
			n.run(settings(t, hard("1Gi")), rundir.State{})
			n.after(time.Minute)
			if got := n.count("kill big"); got != want || n.count("by hand") > 0 {
				t.Errorf("built-in plugin down: %v: %d kills, want %d: %q", down, got, want, n.story())
			}
		})
	}
}

// Nobody is asked twice, and nobody else is, where there is no custom observer.
func TestTheSecondLookCostsNothingWithoutACustomObserver(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.fallback = &byHand{node: n}
		n.addRanker("oldest", nil)
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.after(time.Minute)
		if calls, passes := n.count(" observe"), 6; calls != passes || n.count("by hand") > 0 {
			t.Errorf("%d calls in %d passes, %d looks by the host, want one call each and none", calls, passes, n.count("by hand"))
		}
	})
}

// A custom observer that fails is not asked again in the same pass, nor is the built-in
// one: one call of each.
func TestBothAreAskedOnceAPass(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		calls := 0
		n.addObserver(func() (eviction.ObserveReply, error) {
			calls++
			return eviction.ObserveReply{}, errors.New("no")
		})
		n.fail(func() (eviction.ObserveReply, error) {
			n.note("observe")
			return eviction.ObserveReply{}, eviction.ErrRefused
		})
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.after(time.Minute)
		if got := n.count("observe"); got != calls || got == 0 {
			t.Errorf("the built-in plugin was asked %d times, the custom one %d times, want as often", got, calls)
		}
	})
}

func TestALastingContradictionIsTold(t *testing.T) {
	const reported, over = "observers contradict each other", "observers agree again"
	story(t, func(t *testing.T, n *node) {
		var available atomic.Int64
		available.Store(4*gi - 20*mi) // of another moment
		n.addObserver(func() (eviction.ObserveReply, error) { return saysAvailable(available.Load(), 8*gi)() })
		n.run(settings(t, hard("1Gi")), rundir.State{})
		metric := func() string {
			w := httptest.NewRecorder()
			n.loop.Metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			text, err := io.ReadAll(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "evictd_signal_contradicted{") {
					return strings.TrimSpace(line)
				}
			}
			return ""
		}
		check := func(when string, lasting bool, logged, ended int) {
			t.Helper()
			status, m := n.signal(), metric()
			if (status.Contradiction != nil) != lasting || strings.HasSuffix(m, "} 1") != lasting || strings.Count(n.log.String(), reported) != logged || strings.Count(n.log.String(), over) != ended {
				t.Errorf("%s: %+v, %q, want lasting %v, told %d times, ended %d times", when, status, m, lasting, logged, ended)
			}
		}
		n.after(10 * time.Minute)
		check("figures of other moments", false, 0, 0)
		available.Store(7 * gi)
		n.after(20 * time.Second)
		check("for a moment", false, 0, 0)
		n.after(time.Hour)
		check("for good", true, 1, 0)
		if c := n.signal().Contradiction; c != nil && (len(c.Figures) != 2 || c.Figures[0].ObservedBy != "acme" || c.Figures[0].Available != 7*gi || c.Figures[1].ObservedBy != "memory" || c.Figures[1].Available != 4*gi) {
			t.Errorf("%+v, want both figures", c)
		}
		if got := n.signal(); got.ObservedBy != "memory" || got.Available != 4*gi {
			t.Errorf("%+v, want memory's figure to count", got)
		}
		available.Store(4 * gi)
		n.after(time.Hour)
		check("agreed", false, 1, 1)
		available.Store(7 * gi)
		n.after(time.Hour)
		check("again", true, 2, 1)
		n.mu.Lock()
		n.rankers = nil
		n.mu.Unlock()
		n.changes()
		check("gone", false, 2, 1)
	})
}
