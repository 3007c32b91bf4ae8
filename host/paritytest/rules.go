package paritytest

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/why/replay"
)

// rulesOf names the kubelet's rules that affected s, by the section of
// docs/parity/kubelet-behaviour.md. want holds the decisions of both sides, r the reasons, which
// the kubelet does not report.
func rulesOf(s *replay.Scenario, r *replay.Replay, want *replay.Decisions) []string {
	h := history{scenario: s, pods: map[string]*v1.Pod{}}
	if want.ConfigError != "" {
		return []string{"2 refused configuration"}
	}
	h.list(s.Pods)
	for i := range want.Steps {
		h.step, h.want, h.got, h.pass = &s.Steps[i], &want.Steps[i], &r.Decisions.Steps[i], &r.Passes[i]
		h.list(h.step.UpdatePods)
		h.list(h.step.AddPods)
		h.look()
		h.before, h.resized = h.got, h.resized || len(h.step.UpdatePods) > 0
	}
	return h.rules
}

// history replays a scenario step by step.
type history struct {
	scenario *replay.Scenario
	pods     map[string]*v1.Pod
	step     *replay.Step
	want     *replay.StepDecision
	got      *replay.StepDecision
	pass     *loop.PassResult
	before   *replay.StepDecision
	resized  bool
	rules    []string
}

func (h *history) list(pods []*v1.Pod) {
	for _, p := range pods {
		h.pods[string(p.UID)] = p
	}
}

func (h *history) note(is bool, rule string) {
	if is {
		h.rules = append(h.rules, rule)
	}
}

func (h *history) look() {
	h.figures()
	h.thresholds()
	h.conditions()
	h.reclaim()
	for i := range h.want.Outcomes[0].Evictions {
		h.eviction(&h.want.Outcomes[0].Evictions[i], h.want.Outcomes[0].Signals[i])
	}
	h.ranking()
	h.admissions()
	c := h.want.Outcomes[0].CleanupWaitSeconds
	h.note(c != nil && *c < 30, "16 clean-up is waited for")
	h.note(c != nil && *c >= 30, "16 clean-up takes too long")
}

func (h *history) figures() {
	configured := len(h.scenario.Config.EvictionHard)+len(h.scenario.Config.EvictionSoft) > 0
	h.note(!configured && !h.scenario.Config.LocalStorageCapacityIsolation, "6.1 nothing configured")
	h.note(h.want.Error != "", "6.2 layout unknown, asked again")
	h.note(h.step.ContainerFsInfoError != "" && h.scenario.FilesystemLayout == replay.LayoutContainerFs && h.before == nil && h.want.Error == "",
		"6.2 split layout taken for an unsplit one")
	h.note(h.step.SummaryError != "" && len(h.got.NodeConditions) > 0, "6.4 summary error keeps conditions")
	h.note(h.step.SummaryError != "", "6.4 summary error")
	for _, s := range h.pass.Observations {
		h.note(s.State == decision.StateAbsent, "1 a figure is missing")
		h.note(s.State == decision.StateObserved && s.Available < 0, "1 available below zero")
	}
}

func (h *history) thresholds() {
	met := map[string]int{}
	for i := range h.pass.Thresholds {
		t := &h.pass.Thresholds[i]
		if t.Since == nil {
			continue
		}
		h.note(!t.GraceOver, "6.10 soft threshold waits for its grace period")
		h.note(t.GraceOver && t.GracePeriod != "", "6.10 grace period over")
		h.note(t.GraceOver && !t.Actionable, "6.12 stale figures do not evict")
		h.note(t.MinReclaim != "" && h.aboveValue(t), "6.7 min reclaim prolongs a threshold")
		if t.Actionable {
			met[resource(string(t.Signal))]++
		}
	}
	total := 0
	for _, n := range met {
		total += n
	}
	h.note(met["memory"] > 0 && total > met["memory"], "9 memory before all else")
	h.note(met["memory"] > 1, "9 several memory thresholds met")
	h.note(total-met["memory"] > 1 && met["memory"] == 0, "9 several other thresholds met")
}

// aboveValue reports whether more is available than t's value, ignoring its minimum reclaim.
func (h *history) aboveValue(t *decision.Threshold) bool {
	for _, s := range h.pass.Observations {
		if s.Signal == t.Signal {
			return s.Available >= amount(t, s.Capacity)
		}
	}
	return false
}

func resource(signal string) string {
	switch {
	case strings.Contains(strings.ToLower(signal), "memory"):
		return "memory"
	case strings.HasPrefix(signal, "pid"):
		return "pids"
	case strings.HasSuffix(signal, "inodesFree"):
		return "inodes"
	default:
		return "ephemeral-storage"
	}
}

func (h *history) conditions() {
	raised := map[string]bool{}
	for _, t := range h.pass.Thresholds {
		if t.Since == nil {
			continue
		}
		switch resource(string(t.Signal)) {
		case "memory":
			raised["MemoryPressure"] = true
		case "pids":
			raised["PIDPressure"] = true
		default:
			raised["DiskPressure"] = true
		}
	}
	if h.step.SummaryError == "" && h.want.Error == "" {
		for _, c := range h.got.NodeConditions {
			h.note(!raised[c], "6.9 condition outlives its cause")
		}
		for c := range raised {
			h.note(!slices.Contains(h.got.NodeConditions, c), "6.9 transition period zero hides a condition")
		}
	}
	if h.before != nil {
		for _, c := range h.before.NodeConditions {
			h.note(!slices.Contains(h.got.NodeConditions, c), "6.9 condition ends after the transition period")
		}
	}
}

func (h *history) reclaim() {
	calls := h.want.Outcomes[0].ReclaimCalls
	if len(calls) == 0 {
		return
	}
	h.note(true, "13 reclaim, "+h.scenario.FilesystemLayout+" layout")
	h.note(h.pass.ReclaimSufficed, "13 reclaim suffices")
	h.note(!h.pass.ReclaimSufficed, "13 reclaim does not suffice")
	if r := h.step.Reclaim; r != nil {
		h.note(r.SummaryAfterError != "", "13 no figures after reclaim")
		for _, c := range calls {
			h.note(c == "container-gc" && r.ContainerGCError != "" || c == "image-gc" && r.ImageGCError != "", "13 reclaim fails")
		}
	}
}

func (h *history) admissions() {
	for i, a := range h.want.Admit {
		pod := h.step.Admit[i]
		r := pod.Spec.Resources
		h.note(h.want.MemoryPressure && r != nil && len(r.Requests)+len(r.Limits) == 0, "8 empty resources of the pod under memory pressure")
		switch {
		case len(h.got.NodeConditions) == 0:
			h.note(true, "8 admitted without pressure")
		case !a.Admit:
			h.note(true, "8 rejected")
		case critical(pod):
			h.note(true, "8 critical pod admitted under pressure")
		case len(pod.Spec.Tolerations) > 0:
			h.note(true, "8 admitted with tolerations under memory pressure")
		default:
			h.note(true, "8 admitted under memory pressure")
		}
	}
}

func critical(p *v1.Pod) bool {
	source, ok := p.Annotations["kubernetes.io/config.source"]
	_, mirror := p.Annotations["kubernetes.io/config.mirror"]
	return ok && source != "api" || mirror || p.Spec.Priority != nil && *p.Spec.Priority >= 2000000000
}
