package policy

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"
)

// TestPodStorageLimitIsThatOfPodLimits compares with the library that the kubelet
// uses, with how the sum prints.
func TestPodStorageLimitIsThatOfPodLimits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		pod := randomLimits(r)
		if r.IntN(5) == 0 { // has no storage in it, whatever it says
			pod.Spec.Resources = &v1.ResourceRequirements{Limits: limited("", "5").Resources.Limits}
			pod.Spec.Resources.Limits[v1.ResourceMemory] = pod.Spec.Resources.Limits[v1.ResourceEphemeralStorage]
		}
		want, exists := helpers.PodLimits(pod, helpers.PodResourcesOptions{})[v1.ResourceEphemeralStorage]
		got := podStorageLimit(pod)
		if exists != (got != nil) || exists && (got.Cmp(want) != 0 || got.String() != want.String()) {
			t.Fatalf("limit is %v, want %v (exists: %v) of %+v", got, &want, exists, pod.Spec)
		}
	}
}
