package upstream

import (
	"fmt"
	"testing"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet"

	"github.com/evictd/evictd/host/internal/core/victim"
)

// podSyncStatus stands for the kubelet's type of that name with nothing in it: a pod that
// is not terminating yet. It is larger than the kubelet's.
type podSyncStatus [4096]byte

//go:linkname calculateEffectiveGracePeriod k8s.io/kubernetes/pkg/kubelet.calculateEffectiveGracePeriod
func calculateEffectiveGracePeriod(*podSyncStatus, *v1.Pod, *kubelet.KillPodOptions) (int64, bool)

// A victim has the grace period that the kubelet's pod worker gives it.
func TestTheGraceOfAVictimIsTheKubelets(t *testing.T) {
	of := func(v int64) *int64 { return &v }
	optional := []*int64{nil, of(0), of(1), of(5), of(30), of(100)}
	compared := 0
	for _, deletion := range optional {
		for _, override := range optional {
			for _, spec := range optional {
				pod := &v1.Pod{}
				pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds = deletion, spec
				want, _ := calculateEffectiveGracePeriod(&podSyncStatus{}, pod, &kubelet.KillPodOptions{PodTerminationGracePeriodSecondsOverride: override})
				got := victim.EffectiveGrace(deletion, override, spec)
				if got != want {
					t.Errorf("deletion %s, override %s, spec %s: %d s, the kubelet gives %d s", show(deletion), show(override), show(spec), got, want)
				}
				compared++
			}
		}
	}
	if compared != 216 {
		t.Errorf("%d combinations compared, want 216", compared)
	}
}

func show(v *int64) string {
	if v == nil {
		return "absent"
	}
	return fmt.Sprint(*v)
}
