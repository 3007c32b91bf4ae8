package policy

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
)

func TestChooseOfNothing(t *testing.T) {
	if got, ok := Choose(nil); ok {
		t.Errorf("chose %s of nothing", got)
	}
}

// Signals of plugins come last, whatever they are called, and of the kubelet's those that it derives from others.
func TestTheOrderOfChoice(t *testing.T) {
	own := Define([]Threshold{gib("gpu.example/memory", 1, 0), gib(wear, 1, time.Minute), gib(spare, 1, 0)}, ownDefinitions())
	want := []Threshold{
		gib(eviction.AllocatableMemoryAvailable, 1, 0), gib(eviction.MemoryAvailable, 1, 0), gib(eviction.MemoryAvailable, 2, time.Second),
		gib(eviction.NodeFsAvailable, 1, 0), gib(eviction.PIDAvailable, 1, 0), gib(eviction.ContainerFsAvailable, 1, 0), gib(eviction.ImageFsAvailable, 1, time.Second), own[2], own[0], own[1],
	}
	left := slices.Clone(want)
	slices.Reverse(left)
	for i, th := range want {
		got, ok := Choose(left)
		if !ok || got.Key() != th.Key() {
			t.Fatalf("choice %d is %s, want %s", i, got, th)
		}
		left = slices.DeleteFunc(left, func(u Threshold) bool { return u.Key() == got.Key() })
	}
}

func TestWhomReclaimHasToSatisfy(t *testing.T) {
	memory, disk := gib(eviction.MemoryAvailable, 1, 0), gib(eviction.NodeFsAvailable, 1, 0)
	own := Define([]Threshold{gib(spare, 1, 0), gib(wear, 1, time.Minute), gib("gpu.example/memory", 1, 0)}, ownDefinitions())
	all := append([]Threshold{memory, disk}, own...)
	for signal, want := range map[eviction.Signal][]Threshold{
		eviction.NodeFsAvailable: {memory, disk}, spare: own[:2], wear: own[:2], "gpu.example/memory": own[2:],
	} {
		for _, th := range all {
			if th.Signal == signal && !maps.Equal(keys(Concerned(th, all)), keys(want)) {
				t.Errorf("reclaim for %s concerns %v, want %v", signal, printed(Concerned(th, all)), printed(want))
			}
		}
	}
}

func TestSatisfied(t *testing.T) {
	memory := gib(eviction.MemoryAvailable, 1, 0)
	memory.MinReclaim = &Value{Quantity: resource.MustParse("500Mi")}
	disk := gib(eviction.NodeFsAvailable, 10, 0)
	observed := func(s eviction.Signal, available int64) eviction.Observation {
		return eviction.Observation{Signal: s, State: eviction.Observed, Available: available, Capacity: 100 << 30}
	}
	enough := observed(eviction.MemoryAvailable, 1524<<20)
	for name, c := range map[string]struct {
		memory, disk eviction.Observation
		want         bool
	}{
		"all available":                          {enough, observed(eviction.NodeFsAvailable, 10<<30), true},
		"within its min reclaim":                 {observed(eviction.MemoryAvailable, 1524<<20-1), observed(eviction.NodeFsAvailable, 10<<30), false},
		"a threshold that has nothing to do":     {enough, observed(eviction.NodeFsAvailable, 10<<30-1), false},
		"absent counts as satisfied":             {enough, eviction.Observation{State: eviction.Absent}, true},
		"unknown does not":                       {enough, eviction.Observation{}, false},
		"absent does not make up for the others": {observed(eviction.MemoryAvailable, 0), eviction.Observation{State: eviction.Absent}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Satisfied([]Threshold{memory, disk}, map[eviction.Signal]eviction.Observation{
				eviction.MemoryAvailable: c.memory, eviction.NodeFsAvailable: c.disk,
			})
			if got != c.want {
				t.Errorf("satisfied is %v, want %v", got, c.want)
			}
		})
	}
	if Satisfied([]Threshold{disk}, nil) {
		t.Error("a signal that was not observed is satisfied")
	}
}

func TestShortfall(t *testing.T) {
	value := func(text string) Value { return Value{Quantity: resource.MustParse(text)} }
	half := value("0.5")
	for name, c := range map[string]struct {
		threshold           Threshold
		available, capacity int64
		want                int64
	}{
		"what is missing":                {Threshold{Value: value("1Gi")}, 1<<30 - 10, 0, 10},
		"at least one":                   {Threshold{Value: value("1Gi")}, 2 << 30, 0, 1},
		"with min reclaim":               {Threshold{Value: value("1k"), MinReclaim: &Value{Quantity: value("500").Quantity}}, 900, 0, 600},
		"min reclaim of the capacity":    {Threshold{Value: value("1k"), MinReclaim: &Value{Percentage: 0.5, IsPercentage: true}}, 900, 2000, 1100},
		"halves are added, then rounded": {Threshold{Value: half, MinReclaim: &half}, 0, 0, 1},
		"negative available":             {Threshold{Value: value("100")}, -1, 0, 101},
		"does not overflow":              {Threshold{Value: value("1e30")}, -1, 0, math.MaxInt64},
		"nor the other way":              {Threshold{Value: Value{Percentage: float32(math.NaN()), IsPercentage: true}}, math.MaxInt64, 1, 1},
		"as far as it goes":              {Threshold{Value: value("1")}, math.MinInt64, 0, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Shortfall(c.threshold, eviction.Observation{Available: c.available, Capacity: c.capacity}); got != c.want {
				t.Errorf("shortfall is %d, want %d", got, c.want)
			}
		})
	}
}
