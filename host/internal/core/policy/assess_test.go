package policy

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
)

// gib makes a threshold on whole GiB.
func gib(s eviction.Signal, n int64, grace time.Duration) Threshold {
	return Threshold{Signal: s, Value: Value{Quantity: *resource.NewQuantity(n<<30, resource.BinarySI)}, GracePeriod: grace}
}

// ownDefinitions defines two custom signals that raise the same condition and one that
// has one of its own.
func ownDefinitions() map[eviction.Signal]eviction.Definition {
	all := map[eviction.Signal]eviction.Definition{spare: spareDefinition()}
	for s, condition := range map[eviction.Signal]eviction.Condition{
		"acme.example/nvme.wear": spareDefinition().Condition, "gpu.example/memory": "gpu.example/MemoryPressure",
	} {
		d := spareDefinition()
		d.Resource, d.Condition = string(s), condition
		all[s] = d
	}
	return all
}

// allSignals returns the kubelet's and those of ownDefinitions.
func allSignals() []eviction.Signal {
	return append(eviction.BuiltinSignals(), slices.Sorted(maps.Keys(ownDefinitions()))...)
}

var allConditions = []eviction.Condition{
	eviction.MemoryPressure, eviction.DiskPressure, eviction.PIDPressure, "acme.example/NVMePressure", "gpu.example/MemoryPressure",
}

// randomRun returns a sequence of inputs in which everything happens now and then.
func randomRun(r *rand.Rand) []Input {
	var thresholds []Threshold
	for _, s := range allSignals() {
		if r.IntN(2) == 0 {
			t := gib(s, 1+r.Int64N(3), 0)
			if r.IntN(2) == 0 {
				t.MinReclaim = &Value{Quantity: *resource.NewQuantity(1<<30, resource.BinarySI)}
			}
			thresholds = append(thresholds, t)
		}
		if r.IntN(2) == 0 {
			t := gib(s, 1+r.Int64N(4), time.Duration(1+r.IntN(30))*time.Second)
			if r.IntN(2) == 0 {
				t.MinReclaim = &Value{Quantity: *resource.NewQuantity(1<<30, resource.BinarySI)}
			}
			thresholds = append(thresholds, t)
		}
	}
	thresholds = Define(thresholds, ownDefinitions())
	period := time.Duration(r.IntN(40)) * time.Second
	now := storyStart
	var run []Input
	for range 40 {
		now = now.Add(time.Duration(r.IntN(20)) * time.Second)
		in := Input{Now: now, Thresholds: thresholds, TransitionPeriod: period, Observations: map[eviction.Signal]eviction.Observation{}}
		for _, s := range allSignals() {
			o := eviction.Observation{Signal: s, Available: r.Int64N(6) << 30, Capacity: 8 << 30, Time: now.Add(-time.Duration(r.IntN(3)*10) * time.Second)}
			o.State = []eviction.ObservationState{eviction.Unknown, eviction.Observed, eviction.Observed, eviction.Observed, eviction.Absent}[r.IntN(5)]
			if r.IntN(10) > 0 {
				in.Observations[s] = o
			}
		}
		run = append(run, in)
	}
	return run
}

func TestAssessHoldsItsRules(t *testing.T) {
	for seed := range uint64(50) {
		run := randomRun(rand.New(rand.NewPCG(seed, 1)))
		var s State
		lastSeen := map[eviction.Condition]time.Time{}
		for i, in := range run {
			before := s
			var a Assessment
			s, a = Assess(s, in)
			again, b := Assess(before, in)
			if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(s, again) {
				t.Fatalf("seed %d pass %d: another result from the same input:\n%s%s", seed, i, cmp.Diff(a, b), cmp.Diff(s, again, cmp.AllowUnexported(State{}, pressure{}, source{})))
			}
			checkLists(t, in, a)
			checkConditions(t, in, a, lastSeen)
			if t.Failed() {
				t.Fatalf("seed %d pass %d", seed, i)
			}
		}
	}
}

func checkLists(t *testing.T, in Input, a Assessment) {
	t.Helper()
	observed := map[Key]Observed{}
	for _, o := range a.Observed {
		observed[o.Key()] = o
		if known := in.Observations[o.Signal].State != eviction.Unknown; known == o.Frozen {
			t.Errorf("%s: frozen is %v, known %v", o.Threshold, o.Frozen, known)
		}
		if in.Observations[o.Signal].State == eviction.Absent {
			t.Errorf("%s is met though its signal is absent", o.Threshold)
		}
	}
	for _, m := range a.Met {
		o, ok := observed[m.Key()]
		if !ok || in.Now.Sub(o.FirstObservedAt) < m.GracePeriod {
			t.Errorf("%s counts before its grace period is over", m)
		}
	}
	for _, m := range a.Actionable {
		if in.Observations[m.Signal].State != eviction.Observed {
			t.Errorf("%s is acted on, but nobody knows its signal", m)
		}
		if !slices.ContainsFunc(a.Met, func(o Threshold) bool { return o.Key() == m.Key() }) {
			t.Errorf("%s is acted on but not met", m)
		}
	}
	chosen, ok := Choose(a.Actionable)
	shuffled := slices.Clone(a.Actionable)
	slices.Reverse(shuffled)
	if again, _ := Choose(shuffled); ok && again.Key() != chosen.Key() {
		t.Errorf("%s or %s, depending on the order", chosen, again)
	}
	for _, m := range a.Actionable {
		if isMemory(m.Signal) && (!isMemory(chosen.Signal) || m.Hard() && !chosen.Hard()) {
			t.Errorf("%s goes before %s", chosen, m)
		}
	}
}

// checkConditions compares with a plain model where everything is known, and
// with the rules of change where not.
func checkConditions(t *testing.T, in Input, a Assessment, lastSeen map[eviction.Condition]time.Time) {
	t.Helper()
	for _, o := range a.Observed {
		if !o.Frozen {
			lastSeen[o.Definition().Condition] = in.Now
		}
	}
	for _, c := range allConditions {
		last, seen := lastSeen[c]
		due := seen && in.Now.Sub(last) < in.TransitionPeriod
		reported := slices.Contains(a.Conditions, c)
		unknown := slices.ContainsFunc(in.Thresholds, func(th Threshold) bool {
			return th.Definition().Condition == c && in.Observations[th.Signal].State == eviction.Unknown
		})
		if due != reported && !unknown {
			t.Errorf("%s is reported %v, want %v: last seen %s ago of %s", c, reported, due, in.Now.Sub(last), in.TransitionPeriod)
		}
		if due && !reported {
			t.Errorf("%s is not reported %s after it was last seen, of %s", c, in.Now.Sub(last), in.TransitionPeriod)
		}
		if unknown && slices.Contains(a.Raised, c) && last != in.Now {
			t.Errorf("%s was raised out of nothing", c)
		}
	}
}

func TestAllUnknownChangesNothing(t *testing.T) {
	for seed := range uint64(20) {
		run := randomRun(rand.New(rand.NewPCG(seed, 2)))
		var s State
		for i, in := range run {
			var a Assessment
			s, a = Assess(s, in)
			if len(in.Thresholds) == 0 {
				continue
			}
			later := in
			later.Now, later.Observations = in.Now.Add(time.Hour), nil
			after, b := Assess(s, later)
			if diff := cmp.Diff(s, after, cmp.AllowUnexported(State{}, pressure{}, source{})); diff != "" {
				t.Fatalf("seed %d pass %d: the state changed:\n%s", seed, i, diff)
			}
			if diff := cmp.Diff(a.Conditions, b.Conditions, cmpopts.EquateEmpty()); diff != "" || len(b.Raised)+len(b.Cleared) > 0 {
				t.Fatalf("seed %d pass %d: the conditions changed:\n%s", seed, i, diff)
			}
			if len(a.Met) != len(b.Met) || len(b.Actionable) > 0 {
				t.Fatalf("seed %d pass %d: met %v, then %v, actionable %v", seed, i, a.Met, b.Met, b.Actionable)
			}
		}
	}
}

func TestOwnSignalsRaiseTheirOwnConditions(t *testing.T) {
	own := gib("acme.example/nvme.spare", 1, 0)
	own.Custom = &eviction.Definition{Unit: "blocks", Resource: "acme.example/nvme", Condition: "acme.example/NVMePressure"}
	_, a := Assess(State{}, Input{
		Now: storyStart, Thresholds: []Threshold{own}, TransitionPeriod: time.Minute,
		Observations: map[eviction.Signal]eviction.Observation{own.Signal: {State: eviction.Observed, Capacity: 8 << 30}},
	})
	if diff := cmp.Diff([]eviction.Condition{"acme.example/NVMePressure"}, a.Raised); diff != "" {
		t.Errorf("raised (-want +got):\n%s", diff)
	}
}

func BenchmarkAssess(b *testing.B) {
	thresholds, err := ParseThresholds(ThresholdConfig{
		Hard: DefaultHard(), Soft: DefaultHard(), EnforceNodeAllocatable: []string{"pods"},
		SoftGracePeriod: map[string]string{
			"memory.available": "1m", "nodefs.available": "1m", "nodefs.inodesFree": "1m",
			"imagefs.available": "1m", "imagefs.inodesFree": "1m",
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	observations := map[eviction.Signal]eviction.Observation{}
	for _, s := range eviction.BuiltinSignals() {
		observations[s] = eviction.Observation{Signal: s, State: eviction.Observed, Available: 4 << 30, Capacity: 8 << 30}
	}
	var s State
	for b.Loop() {
		s, _ = Assess(s, Input{Now: storyStart, Thresholds: thresholds, Observations: observations, TransitionPeriod: time.Minute})
	}
}
