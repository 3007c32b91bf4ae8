package choose_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A walker needs some calls until the use of its pods is known.
type walker struct {
	*plugin

	calls int
	asked []int // the number of pods of each call
	walk  func(p *plugin, calls int)
}

func (w *walker) Measure(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	w.calls++
	w.asked = append(w.asked, len(r.Pods))
	w.walk(w.plugin, w.calls)
	time.Sleep(time.Second)
	return w.plugin.Measure(ctx, r, emit)
}

// A pod with many files had everything that no pod explained as its use, and went before the pod that
// held most.
func TestAPodThatMayHoldMoreIsMeasuredOnUntilItIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		signal eviction.Signal
		walk   func(p *plugin, calls int)
		order  string
		calls  int
		took   time.Duration
	}{
		"until it turns out to be small": {eviction.NodeFsAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": 12, "owner": 400}, map[string]int64{"innocent": 30_000}
			if calls == 3 {
				p.uses["innocent"], p.atMost = 20, nil
			}
		}, "disk: owner 400, innocent 20", 3, 3 * time.Second},
		"until it turns out to be large": {eviction.NodeFsAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": int64(calls) * 300, "owner": 400}, map[string]int64{"innocent": 30_000}
			if calls == 3 {
				p.atMost = nil
			}
		}, "disk: innocent 600, owner 400", 2, 2 * time.Second},
		"no longer than a kubelet would have waited": {eviction.NodeFsAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": 12, "owner": 400}, map[string]int64{"innocent": 30_000}
		}, "disk: owner 400, innocent 12", 29, 31 * time.Second},
		"not while it is behind with all that it may hold": {eviction.NodeFsAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": 12, "owner": 400}, map[string]int64{"innocent": 399}
		}, "disk: owner 400, innocent 12", 1, time.Second},
		"not when it is first anyway": {eviction.NodeFsAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": 401, "owner": 400}, map[string]int64{"innocent": 30_000}
		}, "disk: innocent 401, owner 400", 1, time.Second},
		"not for memory, which does not wait": {eviction.MemoryAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": 12, "owner": 400}, map[string]int64{"innocent": 30_000}
		}, "disk: owner 400, innocent 12", 1, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nil, "innocent", "owner")
				n.signal = c.signal
				w := &walker{plugin: &plugin{name: "disk"}, walk: c.walk}
				n.start(w.plugin, eviction.CanMeasure|eviction.CanRank)
				n.plugins[0].Plugin.Measurer = w
				began := time.Now()
				_, got := n.choice(t, false)
				if took := time.Since(began).Truncate(time.Second); got != c.order || w.calls-1 != c.calls || took != c.took+time.Second { // the last call is for the message
					t.Errorf("%s after %d calls and %v, want %s after %d and %v", got, w.calls-1, took, c.order, c.calls, c.took)
				}
				for i, pods := range w.asked[1:] {
					if pods != 1 {
						t.Errorf("call %d asks for %d pods, want the one that is not known", i+2, pods)
					}
				}
			})
		})
	}
}

// A sleeper does not answer before its calls end, at the deadline of a client at the latest.
type sleeper struct{ *plugin }

func (sleeper) Measure(ctx context.Context, _ eviction.MeasureRequest, _ func(eviction.Measurement)) error {
	return sleep(ctx, eviction.MeasureDeadline)
}

func (sleeper) Rank(ctx context.Context, _ eviction.RankRequest) ([]eviction.Ranked, error) {
	return nil, sleep(ctx, eviction.RankDeadline)
}

func sleep(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

// Measuring took its whole deadline while a hog took 60 MiB/s of the last 100.
func TestACallTakesAPartOfTheTimeThatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		plugin string
		left   time.Duration
		took   time.Duration
	}{
		"nothing falls":                        {"memory", 0, 6 * time.Second},
		"much is left":                         {"memory", time.Minute, 6 * time.Second},
		"little is left":                       {"memory", 1600 * time.Millisecond, 400 * time.Millisecond},
		"nothing is left":                      {"memory", 1, 100 * time.Millisecond},
		"a custom plugin has its own deadline": {"acme", 1, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, host{&plugin{uses: map[string]int64{"a": 1, "b": 7}}}, "a", "b")
				n.left = c.left
				n.start(&plugin{name: c.plugin}, eviction.CanMeasure|eviction.CanRank)
				n.plugins[0].Plugin.Measurer, n.plugins[0].Plugin.Ranker = sleeper{}, sleeper{}
				began := time.Now()
				choice, got := n.choice(t, false)
				const detail = 250 * time.Millisecond // for the message
				if late := time.Since(began) - c.took; choice.Err != nil || got != "evictd: b 7, a 1" || late < 0 || late > detail {
					t.Errorf("%s %v after %v (%v), want b 7 first by the host", got, late, c.took, choice.Err)
				}
			})
		})
	}
}

// rounds is the number of random nodes of a property test, 10,000 in the nightly tests.
func rounds() int {
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		return 10_000
	}
	return 1000
}

type observer struct{}

func (observer) Observe(context.Context, eviction.ObserveRequest) (r eviction.ObserveReply, err error) {
	return r, err
}

// A pod that was said to use 1Pi on a machine of 8Gi went first.
func TestAFigureThatCannotBeNeverMakesItsPodTheFirst(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("EVICTD_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("EVICTD_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const capacity = 8 << 30
	for round := range rounds() {
		n := newNode(t, nil)
		n.chooser.Log = slog.New(slog.DiscardHandler)
		n.signal = []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.PIDAvailable}[random.IntN(4)]
		n.observed = eviction.Observation{Signal: n.signal, State: eviction.Observed, Available: random.Int64N(capacity/2) - capacity/4, Capacity: capacity}
		uses := map[string]int64{}
		for i := range 2 + random.IntN(8) {
			name := fmt.Sprint("pod", i)
			n.add(name)
			row := &n.pods[i].Row
			row.Priority, row.MemoryRequestBytes = random.Int32N(3), random.Int64N(3)<<30
			row.EphemeralStorageRequestBytes = row.MemoryRequestBytes
			uses[name] = random.Int64N(capacity)
		}
		does := eviction.CanObserve | eviction.CanMeasure
		if random.IntN(2) == 0 {
			does |= eviction.CanRank
		}
		n.start(&plugin{name: []string{"memory", "disk", "pid"}[random.IntN(3)], uses: uses, bare: random.IntN(2) == 0}, does)
		n.plugins[0].Plugin.Observer = observer{}
		right, _ := n.choice(t, false)
		bad := fmt.Sprint("pod", random.IntN(len(n.pods)))
		uses[bad] = []int64{1 << 50, math.MaxInt64, 2*capacity + random.Int64N(1<<40), math.MaxInt64 - random.Int64N(1<<30)}[random.IntN(4)]
		n.chooser.Forget(n.signal)
		wrong, order := n.choice(t, false)
		if m := wrong.Measured[bad]; m.State != eviction.MeasurementUnknown || !strings.Contains(m.Err, "more than the capacity of "+string(n.signal)) {
			t.Fatalf("round %d: %s is %+v, want unknown with the reason", round, bad, m)
		}
		if wrong.Order[0].UID == bad && right.Order[0].UID != bad {
			t.Fatalf("round %d: %s is the first: %s", round, bad, order)
		}
	}
}
