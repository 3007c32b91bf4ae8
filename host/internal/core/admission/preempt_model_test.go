package admission

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// modelPreempt models the documented rules of Preempt, without regard to cost: all
// candidates are sorted again for each victim.
func modelPreempt(preemptor *v1.Pod, active []Preemptible, lacks []Requirement) (victims []string, ok bool) {
	of := func(class eviction.QoSClass) (out []Preemptible) {
		for _, p := range active {
			ours, theirs := preemptor.Spec.Priority, p.Pod.Spec.Priority
			if p.QoSClass == class && (!policy.IsCritical(p.Pod) || ours != nil && theirs != nil && *ours > *theirs) {
				out = append(out, p)
			}
		}
		return out
	}
	e, b, g := of(eviction.BestEffort), of(eviction.Burstable), of(eviction.Guaranteed)
	if len(modelLacks(lacks, slices.Concat(e, b, g))) > 0 {
		return nil, false
	}
	fromG := modelTake(g, modelLacks(lacks, slices.Concat(e, b)))
	fromB := modelTake(b, modelLacks(lacks, slices.Concat(e, fromG)))
	fromE := modelTake(e, modelLacks(lacks, slices.Concat(fromB, fromG)))
	for _, p := range slices.Concat(fromE, fromB, fromG) {
		victims = append(victims, p.Pod.Name)
	}
	return victims, true
}

func modelAsks(p Preemptible, name v1.ResourceName) int64 {
	if name == v1.ResourcePods {
		return 1
	}
	return p.Requests[name]
}

func modelLacks(lacks []Requirement, gone []Preemptible) (left []Requirement) {
	for _, r := range lacks {
		sum := int64(0)
		for _, p := range gone {
			sum += modelAsks(p, r.Resource)
		}
		if sum < r.Quantity {
			left = append(left, Requirement{r.Resource, r.Quantity - sum})
		}
	}
	return left
}

func modelTake(from []Preemptible, lacks []Requirement) (taken []Preemptible) {
	left := slices.Clone(from)
	for len(lacks) > 0 {
		type place struct {
			index       int
			distance    float64
			memory, cpu int64
		}
		var places []place
		for i, p := range left {
			at := place{index: i, memory: modelAsks(p, v1.ResourceMemory), cpu: modelAsks(p, v1.ResourceCPU)}
			for _, r := range modelLacks(lacks, []Preemptible{p}) {
				j := slices.IndexFunc(lacks, func(l Requirement) bool { return l.Resource == r.Resource })
				part := float64(r.Quantity) / float64(lacks[j].Quantity)
				at.distance += part * part
			}
			places = append(places, at)
		}
		slices.SortFunc(places, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.memory, b.memory), cmp.Compare(a.cpu, b.cpu), cmp.Compare(b.index, a.index))
		})
		first := places[0].index
		taken = append(taken, left[first])
		lacks = modelLacks(lacks, left[first:first+1])
		left[first] = left[len(left)-1]
		left = left[:len(left)-1]
	}
	return taken
}

// TestPreemptIsItsModel looks at nodes on which ties are frequent, because they
// are what the order of the pods decides.
func TestPreemptIsItsModel(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 36))
	several := 0
	for range 20000 {
		preemptor, active, lacks := randomNode(r)
		for i := range lacks {
			lacks[i].Quantity = r.Int64N(4) * r.Int64N(4)
		}
		want, ok := modelPreempt(preemptor, active, lacks)
		got, err := Preempt(preemptor, active, lacks)
		if (err == nil) != ok || names(got) != strings.Join(want, " ") {
			t.Fatalf("victims are %q, %v, want %q, of %+v for %v", names(got), err, want, active, lacks)
		}
		if len(want) > 2 {
			several++
		}
	}
	if several < 2000 {
		t.Errorf("only %d nodes with more than two victims, too few to tell", several)
	}
}
