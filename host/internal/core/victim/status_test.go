package victim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSetEvicted(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	ready := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: before}
	disrupted := func(status v1.ConditionStatus) v1.PodCondition {
		return v1.PodCondition{Type: v1.DisruptionTarget, Status: status, Reason: "PreemptionByScheduler", Message: "old", LastTransitionTime: before}
	}
	ours := func(since metav1.Time) v1.PodCondition {
		return v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet", Message: "low. ",
			ObservedGeneration: 3, LastTransitionTime: since,
		}
	}
	for name, c := range map[string]struct {
		had      []v1.PodCondition
		pressure bool
		want     []v1.PodCondition
	}{
		"pressure marks the pod as disrupted":               {pressure: true, had: []v1.PodCondition{ready}, want: []v1.PodCondition{ready, ours(now)}},
		"a limit of the pod's own does not":                 {had: []v1.PodCondition{ready}, want: []v1.PodCondition{ready}},
		"a former disruption is replaced and keeps its age": {pressure: true, had: []v1.PodCondition{disrupted("True"), ready}, want: []v1.PodCondition{ours(before), ready}},
		"one that was false begins now":                     {pressure: true, had: []v1.PodCondition{disrupted("False")}, want: []v1.PodCondition{ours(now)}},
	} {
		t.Run(name, func(t *testing.T) {
			status := v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", QOSClass: v1.PodQOSBurstable, Conditions: c.had}
			want := v1.PodStatus{
				Phase: v1.PodFailed, Reason: "Evicted", Message: "low. ", PodIP: "10.0.0.1", QOSClass: v1.PodQOSBurstable, Conditions: c.want,
			}
			SetEvicted(&status, 3, "low. ", c.pressure, now.Time)
			if diff := cmp.Diff(want, status); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSetPreempted(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	ready := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: before}
	ours := func(since metav1.Time) v1.PodCondition {
		return v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet", ObservedGeneration: 3,
			Message: "Pod was preempted by Kubelet to accommodate a critical pod.", LastTransitionTime: since,
		}
	}
	for name, c := range map[string]struct{ had, want []v1.PodCondition }{
		"a pod that was fine": {[]v1.PodCondition{ready}, []v1.PodCondition{ready, ours(now)}},
		"one that is just being evicted": {
			[]v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Message: "low. ", LastTransitionTime: before}, ready},
			[]v1.PodCondition{ours(before), ready},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := v1.PodStatus{Phase: v1.PodRunning, Reason: "Evicted", Message: "low. ", PodIP: "10.0.0.1", Conditions: c.had}
			want := v1.PodStatus{Phase: v1.PodFailed, Reason: "Preempting", Message: "Preempted in order to admit critical pod", PodIP: "10.0.0.1", Conditions: c.want}
			SetPreempted(&status, 3, now.Time)
			if diff := cmp.Diff(want, status); diff != "" {
				t.Error(diff)
			}
		})
	}
}
