package replay

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

func TestARecordIsAScenario(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 50, 0, time.UTC)
	since := at.Add(-30 * time.Second)
	r := &decision.Decision{
		ID: "r1", Kind: decision.KindEviction, Now: at, Node: "node-1", Layout: LayoutImageFs,
		Thresholds: []decision.Threshold{
			{Signal: eviction.MemoryAvailable, Value: "10%"},
			{Signal: eviction.AllocatableMemoryAvailable, Value: "10%"},
			{Signal: eviction.MemoryAvailable, Value: "1Gi", GracePeriod: "30s", MinReclaim: "200Mi", Since: &since, GraceOver: true, Actionable: true, Acted: true},
		},
		Observations: []decision.Observation{{Signal: eviction.MemoryAvailable, State: decision.StateObserved, Available: 1100 << 20, Capacity: 8 << 30}},
		Candidates:   []decision.Candidate{{UID: "web-1", Pod: "shop/web", Priority: 1000, Started: at.Unix() - 60, MemoryRequest: 1 << 30, Usage: 2 << 30}, {UID: "new-1", Pod: "shop/new", State: decision.StateNoStats}},
		Order:        []int{1, 0}, Protected: []decision.Protected{{UID: "dns-1", Pod: "kube-system/dns", Rule: "critical or static"}, {UID: "x", Pod: "shop/x", Rule: "being evicted"}},
		Victim: &decision.Victim{Pod: "shop/new", Signal: "memory.available", GraceSeconds: 60},
	}
	trace, err := FromRecord(r)
	if err != nil {
		t.Fatal(err)
	}
	s := trace.Scenario
	if _, err := Configuration(s); err != nil {
		t.Error(err)
	}
	text, err := json.Marshal(trace)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(text); err != nil {
		t.Error(err)
	}
	c := s.Config
	switch {
	case c.EvictionHard["memory.available"] != "10%" || len(c.EvictionHard) != 1 || c.EnforceNodeAllocatable[0] != "pods":
		t.Errorf("hard thresholds: %v, %v", c.EvictionHard, c.EnforceNodeAllocatable)
	case c.EvictionSoft["memory.available"] != "1Gi" || c.EvictionSoftGracePeriod["memory.available"] != "30s" || c.EvictionMinimumReclaim["memory.available"] != "200Mi":
		t.Errorf("soft thresholds: %+v", c)
	case !s.Pods[0].Status.StartTime.Time.Equal(at.Add(-time.Minute)) || s.Pods[1].Status.StartTime != nil:
		t.Errorf("started at %v and %v, want a minute before and unknown", s.Pods[0].Status.StartTime, s.Pods[1].Status.StartTime)
	case len(s.Pods) != 3 || *s.Pods[2].Spec.Priority != criticalPriority || len(s.Steps) != 4 || s.Steps[2].AdvanceSeconds != 29.999:
		t.Errorf("%d pods, steps %+v", len(s.Pods), s.Steps)
	case !strings.Contains(string(s.Steps[2].Summary), `"availableBytes":1073741823`) || !strings.Contains(string(s.Steps[3].Summary), `"availableBytes":1153433600`):
		t.Errorf("what was prolonged was not first below the threshold itself: %s, %s", s.Steps[2].Summary, s.Steps[3].Summary)
	case strings.Contains(string(s.Steps[3].Summary), "new-1") || !strings.Contains(string(s.Steps[3].Summary), `"uid":"web-1"`):
		t.Errorf("figures of pods: %s", s.Steps[3].Summary)
	}
}

func TestWhatIsNoChoiceBetweenPodsIsNotReplayed(t *testing.T) {
	for why, r := range map[string]*decision.Decision{
		"is of no choice between pods":       {ID: "r1", Kind: decision.KindLimit},
		"is of an eviction by the kubelet":   {ID: "r1", Kind: decision.KindOther, ByOthers: decision.ByOthers{By: "the kubelet"}},
		"acme.example/nvme.spare, which no ": {ID: "r1", Thresholds: []decision.Threshold{{Signal: "acme.example/nvme.spare", Value: "1", Acted: true}}, Candidates: []decision.Candidate{{}}},
	} {
		if _, err := FromRecord(r); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
}

func TestARankingIsReplayedAsIfItsThresholdWereMet(t *testing.T) {
	ranking := func(s eviction.Signal) *decision.Decision {
		return &decision.Decision{
			ID: "r1", Kind: decision.KindRanking, Now: time.Date(2026, 1, 1, 12, 0, 50, 0, time.UTC), Node: "node-1",
			Thresholds: []decision.Threshold{
				{Signal: eviction.NodeFsAvailable, Value: "10%"},
				{Signal: s, Value: "1Gi", GracePeriod: "30s", MinReclaim: "200Mi", Acted: true},
			},
			Observations: []decision.Observation{
				{Signal: eviction.MemoryAvailable, State: decision.StateObserved, Available: 4 << 30, Capacity: 8 << 30},
				{Signal: eviction.ContainerFsAvailable, State: decision.StateObserved, Available: 4 << 30, Capacity: 8 << 30},
				{Signal: eviction.PIDAvailable, State: decision.StateUnknown},
			},
			Candidates: []decision.Candidate{{UID: "web-1", Pod: "shop/web", Usage: 2 << 30}, {UID: "report-1", Pod: "shop/report", Usage: 3 << 30}}, Order: []int{1, 0},
		}
	}
	trace, err := FromRecord(ranking(eviction.MemoryAvailable))
	if err != nil {
		t.Fatal(err)
	}
	c, steps := trace.Scenario.Config, trace.Scenario.Steps
	if len(c.EvictionHard) != 1 || c.EvictionHard["memory.available"] != "4294967297" || len(c.EvictionSoft) > 0 || len(c.EvictionMinimumReclaim) > 0 {
		t.Errorf("thresholds %+v, want one above the 4 GiB that are available", c)
	}
	if len(steps) != 2 || !strings.Contains(string(steps[1].Summary), `"availableBytes":4294967296`) {
		t.Errorf("steps %+v, want the figures in the second", steps)
	}
	if want := "recorded: shop/report would have gone first for memory.available"; trace.Scenario.Description != want {
		t.Errorf("%q, want %q", trace.Scenario.Description, want)
	}
	if text, other := OtherVictim(trace, &Replay{Decisions: &Decisions{}}); text != "no pod goes instead of shop/report" || !other {
		t.Errorf("%q, want the first of the ranking", text)
	}
	for s, why := range map[eviction.Signal]string{eviction.PIDAvailable: "has no figure of pid.available", eviction.ContainerFsAvailable: "follow from another signal's"} {
		if _, err := FromRecord(ranking(s)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
}
