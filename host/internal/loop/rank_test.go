package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/observe"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// victimOf runs one eviction and returns who went and who ranked.
func victimOf(t *testing.T, n *node, s Settings) (pod, by string) {
	t.Helper()
	n.run(s, rundir.State{})
	n.settle()
	n.set(gi / 2)
	n.wake()
	n.after(3 * time.Second)
	e := n.loop.Snapshot().Evictions
	if len(e) == 0 {
		return "", ""
	}
	return e[0].Name, e[0].Ranker
}

func TestACustomRankerDecides(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.addRanker("mine", func(eviction.RankRequest) ([]eviction.Ranked, error) {
			return []eviction.Ranked{{UID: "uid-small"}, {UID: "uid-big"}}, nil
		})
		if pod, by := victimOf(t, n, settings(t, hard("1Gi"))); pod != "default/small" || by != "mine" {
			t.Errorf("victim %q by %q, want default/small by mine", pod, by)
		}
	})
}

// both is a measurer that ranks in the same call.
type both struct {
	*node
	ranking eviction.Ranking
}

func (b both) MeasureAndRank(ctx context.Context, r eviction.MeasureRequest, _ eviction.RankRequest, emit func(eviction.Measurement)) (eviction.Ranking, error) {
	ranking := b.ranking
	ranking.Order = slices.DeleteFunc(slices.Clone(ranking.Order), func(p eviction.Ranked) bool {
		return !slices.ContainsFunc(r.Pods, func(asked eviction.Pod) bool { return asked.UID == p.UID })
	})
	return ranking, b.node.Measure(ctx, r, emit)
}

func TestARankingThatCameWithTheMeasurements(t *testing.T) {
	order := eviction.Ranking{Order: []eviction.Ranked{{UID: "uid-small"}, {UID: "uid-big"}}}
	for name, c := range map[string]struct {
		ranking  eviction.Ranking
		measures error
		pod, by  string
	}{
		"decides":                                 {ranking: order, pod: "default/small", by: "memory"},
		"and that was not made is asked for":      {pod: "default/big", by: "memory"},
		"and that failed is not asked for again":  {ranking: eviction.Ranking{Err: eviction.ErrUnavailable}, pod: "default/big", by: observe.HostItself},
		"without all measurements does not stand": {ranking: order, measures: eviction.ErrUnavailable, pod: "default/small", by: "again"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				memory := n.providers[0].Plugin
				memory.Measurer = both{n, c.ranking}
				if n.measure = c.measures; n.measure != nil {
					n.providers[0].Name = "again"
					memory.Ranker = ranker(func(r eviction.RankRequest) ([]eviction.Ranked, error) {
						return []eviction.Ranked{{UID: "uid-small"}, {UID: "uid-big"}}, nil
					})
				}
				if pod, by := victimOf(t, n, settings(t, hard("1Gi"))); pod != c.pod || by != c.by {
					t.Errorf("victim %q by %q, want %s by %s", pod, by, c.pod, c.by)
				}
			})
		})
	}
}

func TestARankerThatFailsIsReplaced(t *testing.T) {
	for name, broken := range map[string]ranker{
		"error": func(eviction.RankRequest) ([]eviction.Ranked, error) { return nil, eviction.ErrRefused },
		"dead":  func(eviction.RankRequest) ([]eviction.Ranked, error) { return nil, eviction.ErrUnavailable },
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.addRanker("mine", broken)
				if pod, by := victimOf(t, n, settings(t, hard("1Gi"))); pod != "default/big" || by != "memory" {
					t.Errorf("victim %q by %q, want default/big by memory", pod, by)
				}
			})
		})
	}
}

func TestWithoutAnyRankerTheHostRanks(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.providers[0].Plugin.Ranker = nil
		if pod, by := victimOf(t, n, settings(t, hard("1Gi"))); pod != "default/big" || by != observe.HostItself {
			t.Errorf("victim %q by %q, want default/big by %s", pod, by, observe.HostItself)
		}
	})
}

func TestWhoIsLeftOut(t *testing.T) {
	nobody := func(eviction.RankRequest) ([]eviction.Ranked, error) { return nil, nil }
	for name, c := range map[string]struct {
		veto RankVeto
		hard bool
		want string
	}{
		"under a hard threshold goes in the built-in order": {VetoSoft, true, "default/big"},
		"under a soft threshold is safe":                    {VetoSoft, false, ""},
		"is always safe by configuration":                   {VetoAlways, true, ""},
		"is never safe by configuration":                    {VetoNever, false, "default/big"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.addRanker("mine", nobody)
				s := settings(t, soft("1Gi", "1s"))
				if c.hard {
					s = settings(t, hard("1Gi"))
				}
				s.RankVeto = c.veto
				if pod, _ := victimOf(t, n, s); pod != c.want {
					t.Errorf("victim %q, want %q", pod, c.want)
				}
			})
		})
	}
}

func TestWhenMeasuringFailsTheLastFiguresRank(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.addPod("middle", gi)
		s := settings(t, hard("3Gi"))
		n.run(s, rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.dies["uid-big"] = time.Second
		n.wake()
		n.after(100 * time.Millisecond)
		n.mu.Lock()
		n.measure = eviction.ErrUnavailable
		n.mu.Unlock()
		n.after(5 * time.Second)
		if got := n.count("kill middle"); got != 1 {
			t.Errorf("%d kills of middle, want 1 by its last figures: %q", got, n.story())
		}
		if got := n.count("kill small"); got != 0 {
			t.Errorf("small was killed: %q", n.story())
		}
	})
}

func TestWhenNothingWasEverMeasuredSomebodyStillGoes(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.measure = eviction.ErrUnavailable
		if pod, _ := victimOf(t, n, settings(t, hard("1Gi"))); pod == "" {
			t.Error("no victim under a hard threshold because measuring failed")
		}
	})
}

func TestProtectedPodsAreNeverShownToARanker(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.addPod("static", 3*gi)
		n.pods[2].API.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		n.addPod("stranger", 3*gi)
		n.pods[3].HasManifest = false
		var shown []string
		n.addRanker("mine", func(r eviction.RankRequest) ([]eviction.Ranked, error) {
			for _, c := range r.Candidates {
				shown = append(shown, c.Pod.Name)
			}
			return nil, eviction.ErrRefused
		})
		pod, _ := victimOf(t, n, settings(t, hard("1Gi")))
		if len(shown) != 2 || pod != "default/big" {
			t.Errorf("ranker saw %q and %q went, want small and big seen, big gone", shown, pod)
		}
	})
}

// The ranking of now is served while nothing is short, again and again, and evicts no pod.
func TestARankingOfNowEvictsNobody(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		for range 3 {
			d, err := Ranking(t.Context(), n.loop, eviction.MemoryAvailable)
			if err != nil || len(d.Order) != 2 || d.Candidates[d.Order[0]].UID != "uid-big" || d.Acted() == nil || d.Acted().Since != nil {
				t.Errorf("%+v, %v; want big before small, for a threshold that is not met", d, err)
			}
		}
		if _, err := Ranking(t.Context(), n.loop, eviction.PIDAvailable); !errors.Is(err, ErrNoThreshold) || !strings.HasSuffix(err.Error(), `"pid.available", want one of memory.available`) {
			t.Errorf("of a signal without a threshold: %v, want those that have one", err)
		}
		n.after(time.Minute)
		if e := n.loop.Snapshot().Evictions; len(e) > 0 {
			t.Errorf("%s was evicted", e[0].Name)
		}
		n.set(gi / 2)
		n.wake()
		n.after(3 * time.Second)
		d, err := Ranking(t.Context(), n.loop, eviction.MemoryAvailable)
		if err != nil || len(d.Order) != 1 || d.Candidates[d.Order[0]].UID != "uid-small" {
			t.Errorf("after an eviction: %+v, %v; want small alone", d, err)
		}
	})
}
