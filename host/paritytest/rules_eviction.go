package paritytest

import (
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/why/replay"
)

func (h *history) eviction(e *replay.Eviction, label string) {
	pod := h.pods[e.UID]
	if limit, is := strings.CutSuffix(label, ".limit"); is {
		h.note(true, "10 "+limit+" limit")
		h.note(strings.Contains(e.Message, "Container i"), "10 "+limit+" limit of a sidecar")
		for _, v := range pod.Spec.Volumes {
			h.note(v.EmptyDir != nil && v.EmptyDir.Medium != "" && strings.Contains(e.Message, strconv.Quote(v.Name)), "10 "+limit+" limit in memory")
		}
		h.note(len(h.want.Outcomes[0].Evictions) > 1, "10 several pods in a pass")
		return
	}
	h.note(true, "12 evicted for "+label+", "+h.scenario.FilesystemLayout+" layout")
	h.note(strings.HasPrefix(label, "containerfs"), "5 containerfs threshold")
	h.note(label == "allocatableMemory.available", "4 allocatable memory")
	h.note(e.KillError != "", "12 a kill error still counts")
	h.note(strings.Contains(e.Message, "Container "), "12 containers in the message")
	h.note(strings.Contains(e.Message, "Container i"), "12 init containers in the message")
	h.note(strings.Contains(e.Message, "Pod "+pod.Name), "12 resources of the pod in the message")
	h.note(h.scenario.Config.FeatureGates != nil, "3 feature gates")
	for _, c := range pod.Status.Conditions {
		h.note(c.Type == v1.DisruptionTarget, "12 DisruptionTarget is replaced")
	}
	if acted := h.pass.Acted(); acted != nil && !acted.Hard() {
		own := pod.Spec.TerminationGracePeriodSeconds
		h.note(own == nil, "12 soft, the pod has no grace period")
		h.note(own != nil && *own <= e.GracePeriodSeconds, "12 soft, the pod's grace period")
		h.note(own != nil && *own > e.GracePeriodSeconds, "12 soft, grace period is capped")
	}
	h.spec(pod)
}

// spec notes which parts of the victim's spec affected its rank.
func (h *history) spec(pod *v1.Pod) {
	h.note(len(pod.Spec.Overhead) > 0, "11 victim with overhead")
	h.note(pod.Spec.Resources != nil, "11 victim with resources of the pod")
	h.note(h.resized, "11 after a resize in place")
	for _, c := range pod.Spec.InitContainers {
		h.note(c.RestartPolicy != nil, "11 victim with sidecars")
		h.note(c.RestartPolicy == nil, "11 victim with init containers")
	}
}

func (h *history) ranking() {
	if h.pass.Acted() == nil || h.pass.ReclaimSufficed {
		return
	}
	evicted := len(h.want.Outcomes[0].Evictions)
	h.note(len(h.pass.Order) == 0 && evicted == 0, "14 nobody may be evicted")
	if evicted == 0 || len(h.pass.Order) == 0 {
		return
	}
	h.note(true, "11 ranking by "+resource(string(h.pass.Acted().Signal))+", "+h.scenario.FilesystemLayout+" layout")
	h.note(h.pass.Candidates[h.pass.Order[0]].State == decision.StateNoStats, "11 missing stats first")
	h.note(len(h.want.Outcomes) > 1, "11 and 9 chance decides")
	h.note(len(h.pass.Order) > 12, "11 more than a dozen pods")
	for _, p := range h.pods {
		h.note(critical(p), "14 critical pods in the node")
	}
}

// amount returns the amount of a threshold for a capacity.
func amount(t *decision.Threshold, capacity int64) int64 {
	p, err := t.Policy()
	if err != nil {
		return 0
	}
	q := p.Amount(capacity)
	return q.Value()
}
