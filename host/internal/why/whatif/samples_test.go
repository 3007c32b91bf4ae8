package whatif

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// A world is a node whose pods change their use from second to second.
type world struct {
	random    *rand.Rand
	pods      []eviction.Pod
	use       [][]int64 // by second and pod
	available map[eviction.Signal][]int64
}

const (
	begin    = 1_000_000 // of Unix time
	capacity = 8 * gibibyte
	tasks    = 30_000
)

func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 7)), available: map[eviction.Signal][]int64{}}
	n, seconds := 2+w.random.IntN(4), 20+w.random.IntN(100)
	use, slope, from := make([]int64, n), make([]int64, n), make([]int, n)
	for i := range n {
		name := string(rune('a' + i))
		w.pods = append(w.pods, eviction.Pod{UID: name, Namespace: "x", Name: name, Priority: int32(w.random.IntN(2)), MemoryRequestBytes: w.random.Int64N(3) * gibibyte / 2})
		use[i], from[i] = w.random.Int64N(gibibyte), w.random.IntN(seconds)
		if w.random.IntN(2) == 0 {
			slope[i] = w.random.Int64N(400 << 20)
		}
	}
	daemons, forks := w.random.Int64N(3*gibibyte), w.random.Int64N(300)
	for second := range seconds {
		free, left := int64(capacity)-daemons-w.random.Int64N(100<<20), tasks-forks*int64(second)-w.random.Int64N(500)
		for i := range n {
			if second >= from[i] && free > 0 {
				use[i] += slope[i]
			}
			free -= use[i]
		}
		w.use = append(w.use, append([]int64(nil), use...))
		w.available[eviction.MemoryAvailable] = append(w.available[eviction.MemoryAvailable], max(0, free))
		w.available[eviction.PIDAvailable] = append(w.available[eviction.PIDAvailable], max(0, left))
	}
	return w
}

// thresholds returns one or two, at the amounts that the world has.
func (w *world) thresholds() (out []policy.Threshold) {
	for range 1 + w.random.IntN(2) {
		t := policy.Threshold{Signal: eviction.MemoryAvailable}
		if w.random.IntN(6) == 0 {
			t.Signal = eviction.PIDAvailable
		}
		of := w.available[t.Signal]
		value := fmt.Sprint(of[w.random.IntN(len(of))] + w.random.Int64N(3) - 1)
		if w.random.IntN(4) == 0 {
			value = fmt.Sprintf("%d%%", 1+w.random.IntN(60))
		}
		t.Value, _ = policy.ParseValue(value)
		if w.random.IntN(3) == 0 {
			t.GracePeriod = time.Duration(1+w.random.IntN(15)) * time.Second
		}
		if w.random.IntN(4) == 0 {
			least, _ := policy.ParseValue("500Mi")
			t.MinReclaim = &least
		}
		out = append(out, t)
	}
	return out
}

// asks replays the world: which threshold asks for an eviction first, and in which second.
func (w *world) asks(thresholds []policy.Threshold) (acted string, second int) {
	acted, second, _ = w.assess(thresholds)
	return acted, second
}

func (w *world) assess(thresholds []policy.Threshold) (acted string, second int, met []policy.Observed) {
	var state policy.State
	for second := range w.use {
		observed := map[eviction.Signal]eviction.Observation{}
		for s, of := range w.available {
			total := int64(capacity)
			if s == eviction.PIDAvailable {
				total = tasks
			}
			observed[s] = eviction.Observation{Signal: s, State: eviction.Observed, Available: of[second], Capacity: total}
		}
		var a policy.Assessment
		state, a = policy.Assess(state, policy.Input{Now: time.Unix(begin+int64(second), 0), Thresholds: thresholds, Observations: observed})
		if t, ok := policy.Choose(a.Actionable); ok {
			return t.String(), second, a.Observed
		}
	}
	return "", -1, nil
}

// order returns the kubelet's order in a second.
func (w *world) order(second int, s eviction.Signal) (order []int) {
	var candidates []eviction.Candidate
	places := map[string]int{}
	for i, pod := range w.pods {
		places[pod.UID] = i
		candidates = append(candidates, eviction.Candidate{Pod: pod, Measurement: eviction.Measurement{
			UID: pod.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: s, Value: w.use[second][i]}},
		}})
	}
	for _, ranked := range rank.Kubelet(candidates, s) {
		order = append(order, places[ranked.UID])
	}
	return order
}

func (w *world) name(i int) string { return "x/" + w.pods[i].Name }

// record returns what is recorded of the first eviction for thresholds, nil if there is none.
func (w *world) record(thresholds []policy.Threshold) *decision.Decision {
	acted, end, met := w.assess(thresholds)
	if acted == "" {
		return nil
	}
	r := &decision.Decision{Time: time.Unix(begin+int64(end), 300_000_000), Timeline: decision.Timeline{ObservedMS: -w.random.Float64() * 300}}
	if w.random.IntN(4) == 0 { // decided in the next second
		r.Time, r.Timeline.ObservedMS = r.Time.Add(800*time.Millisecond), -150-w.random.Float64()*700
	}
	for _, t := range thresholds {
		row := decision.Threshold{Signal: t.Signal, Value: t.Value.String(), Acted: t.String() == acted}
		if !t.Hard() {
			row.GracePeriod = t.GracePeriod.String()
		}
		if t.MinReclaim != nil {
			row.MinReclaim = t.MinReclaim.String()
		}
		for _, o := range met {
			if o.Key() == t.Key() {
				row.Since = &o.FirstObservedAt
			}
		}
		r.Thresholds = append(r.Thresholds, row)
	}
	signal := eviction.MemoryAvailable
	if r.Acted().Signal == eviction.PIDAvailable {
		signal = eviction.PIDAvailable
	}
	gaps := 0
	if w.random.IntN(3) == 0 {
		gaps = 20
	}
	for s, unit := range map[eviction.Signal]int64{eviction.MemoryAvailable: 2 << 20, eviction.PIDAvailable: 8} {
		series := decision.Series{Signal: s, Unit: unit, UntilMS: decision.MS(time.Unix(begin+int64(end), 0), r.Time)}
		last, former := int64(0), int64(0)
		for second := range end + 1 {
			if second > 0 && second < end && gaps > 0 && w.random.IntN(gaps) == 0 {
				series.Repeated = append(series.Repeated, second)
			} else {
				last = w.available[s][second] / unit
			}
			series.Available = append(series.Available, last-former)
			former = last
		}
		total := int64(capacity)
		if s == eviction.PIDAvailable {
			total = tasks
		}
		r.Signals = append(r.Signals, series)
		r.Observations = append(r.Observations, decision.Observation{Signal: s, State: decision.StateObserved, Available: w.available[s][end], Capacity: total})
	}
	counted := w.available[eviction.MemoryAvailable][0]
	for second := range end + 1 {
		if now := w.available[eviction.MemoryAvailable][second]; signal == eviction.MemoryAvailable && counted-now >= capacity/32 {
			counted = now
			r.Usage = append(r.Usage, decision.UsageSample{MS: decision.MS(time.Unix(begin+int64(second), 999_000_000), r.Time), First: w.name(w.order(second, signal)[0])})
		}
	}
	r.Order = w.order(end, signal)
	for i := range w.pods {
		r.Candidates = append(r.Candidates, decision.Candidate{UID: w.pods[i].UID, Pod: w.name(i)})
	}
	return r
}

// A statement compares what is said of other thresholds with a replay of the world.
type statement struct {
	said              Earlier
	exact, met, first bool
	wrong             string
}

func (w *world) compare(r *decision.Decision, other []policy.Threshold) (out statement, err error) {
	e, err := Met(r, other)
	if err != nil {
		return out, err
	}
	out = statement{said: e, exact: e.Exact, met: e.Exact && e.Threshold != "", first: e.FirstExact}
	acted, second := w.asks(other)
	end := int(unix(r, r.Timeline.ObservedMS) - begin)
	if second > end {
		acted = ""
	}
	at := end - int(e.Seconds)
	switch {
	case !e.Exact:
	case e.Threshold == "" && acted != "":
		out.wrong = "not by then"
	case e.Threshold == "":
	case acted == "" || e.AtLeast && second > at || !e.AtLeast && (second != at || acted != e.Threshold):
		out.wrong = "met"
	case e.FirstExact && e.First != w.name(w.order(second, r.Acted().Signal)[0]):
		out.wrong = "first"
	}
	if out.wrong != "" {
		out.wrong = fmt.Sprintf("%s: %+v, and it was %q in second %d of %d", out.wrong, e, acted, second, end)
	}
	return out, nil
}

// compareMany makes worlds with records until there are n, and returns what was said of each.
func compareMany(t *testing.T, n int, change func(*decision.Decision)) (all []statement) {
	t.Helper()
	for seed := uint64(0); len(all) < n; seed++ {
		w := newWorld(seed)
		r := w.record(w.thresholds())
		if r == nil {
			continue
		}
		change(r)
		said, err := w.compare(r, w.thresholds())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if said.wrong != "" {
			said.wrong = fmt.Sprintf("seed %d: %s", seed, said.wrong)
		}
		all = append(all, said)
	}
	return all
}

// At another threshold another pod had gone four seconds before, and it was said that the same one would go.
func TestWhatIsSaidToBeExactIsWhatTheWorldDoes(t *testing.T) {
	exact, met, first := 0, 0, 0
	for _, s := range compareMany(t, 10_000, func(*decision.Decision) {}) {
		if s.wrong != "" {
			t.Error(s.wrong)
		}
		exact, met, first = exact+count(s.exact), met+count(s.met), first+count(s.first)
	}
	t.Logf("%d exact, %d of them met, %d with the first pod", exact, met, first)
	if exact < 5000 || met < 2500 || exact-met < 500 || first < 400 {
		t.Error("want more statements that are exact")
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// The comparison finds records that say more than was seen.
func TestAStatementThatIsNotExactIsFound(t *testing.T) {
	for name, fault := range map[string]func(*decision.Decision){
		"seconds without a sample": func(r *decision.Decision) {
			for i := range r.Signals {
				r.Signals[i].Repeated = nil
			}
		},
		"samples that are rounded": func(r *decision.Decision) {
			for i := range r.Signals {
				s := &r.Signals[i]
				for n := range s.Available {
					s.Available[n] *= s.Unit
				}
				s.Unit = 1
			}
		},
		"a sample of who was first that is of the second before": func(r *decision.Decision) {
			for i := range r.Usage {
				r.Usage[i].MS += 1000
			}
		},
	} {
		wrong := 0
		for _, s := range compareMany(t, 1000, fault) {
			wrong += count(s.wrong != "")
		}
		if wrong == 0 {
			t.Errorf("%s: no statement is found to be wrong", name)
		}
	}
}
