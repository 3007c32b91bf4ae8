package policy

import (
	"math/rand/v2"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// TestLocalLimitsHoldTheirRules looks at random pods, half of them over a limit.
func TestLocalLimitsHoldTheirRules(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found := map[string]int{}
	for range 3000 {
		pod, use := randomLimits(r), randomUse(r)
		layout := eviction.Layout(r.IntN(4))
		before := pod.DeepCopy()
		got, ok := CheckLocalLimits(pod, use, layout, LocalRules{})
		again, _ := CheckLocalLimits(pod, use, layout, LocalRules{})
		found[got.Label]++
		switch {
		case got != again:
			t.Fatalf("%q, then %q", got, again)
		case !reflect.DeepEqual(before, pod):
			t.Fatalf("the pod was changed:\n%v\n%v", before, pod)
		case !ok:
			continue
		case IsCritical(pod) || use.State != eviction.Measured || !HasLocalLimits(pod):
			t.Fatalf("%q for a critical pod (%v), without figures (%v) or without limits", got, IsCritical(pod), use.State)
		}
	}
	for _, label := range []string{"", LabelEmptyDirLimit, LabelPodStorageLimit, LabelContainerStorageLimit} {
		if found[label] < 50 {
			t.Errorf("the run had %d of %q, too few to tell", found[label], label)
		}
	}
}

// TestNoUseIsOverNoLimit: what uses nothing is over no limit.
func TestNoUseIsOverNoLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		pod := randomLimits(r)
		if v, ok := CheckLocalLimits(pod, eviction.Measurement{State: eviction.Measured}, eviction.LayoutShared, LocalRules{}); ok {
			t.Fatalf("%q for %+v", v, pod.Spec)
		}
	}
}

var someLimits = []string{"", "", "0", "1", "1500m", "4", "8", "1k", "1Ki"}

func randomLimits(r *rand.Rand) *v1.Pod {
	limit := func() string { return someLimits[r.IntN(len(someLimits))] }
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{
		Containers: []v1.Container{limited("a", limit()), limited("b", limit())},
		Volumes:    []v1.Volume{emptyDir("v", limit(), ""), emptyDir("w", limit(), v1.StorageMediumMemory)},
	}}
	for range r.IntN(4) {
		if c := limited("i", limit()); r.IntN(2) == 0 {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, sidecar("s", limit()))
		}
	}
	if r.IntN(3) == 0 {
		pod.Spec.Overhead = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("3")}
	}
	if r.IntN(10) == 0 {
		critical(pod)
	}
	return pod
}

func randomUse(r *rand.Rand) eviction.Measurement {
	used := func() eviction.Figure { return eviction.Figure{Value: r.Int64N(10), OK: r.IntN(4) > 0} }
	m := eviction.Measurement{State: eviction.Measured, EphemeralStorageUsedBytes: used()}
	if r.IntN(10) == 0 {
		m.State = eviction.MeasurementState(r.IntN(3))
	}
	for _, name := range []string{"b", "a", "s", "gone"} {
		m.Containers = append(m.Containers, eviction.ContainerMeasurement{Name: name, RootfsUsedBytes: used(), LogsUsedBytes: used()})
	}
	for _, name := range []string{"v", "w", "v"} {
		m.Volumes = append(m.Volumes, eviction.VolumeMeasurement{Name: name, UsedBytes: used()})
	}
	return m
}
