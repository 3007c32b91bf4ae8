package replay

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/observe"
	"github.com/evictd/evictd/host/internal/record"
	"github.com/evictd/evictd/shared/eviction"
)

func TestARecordIsAScenario(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 50, 0, time.UTC)
	since := at.Add(-30 * time.Second)
	r := &record.Record{
		ID: "r1", Kind: record.KindEviction, Now: at, Node: "node-1", Layout: LayoutImageFs,
		Thresholds: []record.Threshold{
			{Signal: eviction.MemoryAvailable, Percentage: "0.1"},
			{Signal: eviction.AllocatableMemoryAvailable, Percentage: "0.1"},
			{Signal: eviction.MemoryAvailable, Quantity: "1Gi", GraceSeconds: 30, MinReclaim: "200Mi", Since: &since, GraceOver: true, Actionable: true, Acted: true},
		},
		Observations: []observe.SignalStatus{{Signal: eviction.MemoryAvailable, State: observe.StateObserved, Available: 1100 << 20, Capacity: 8 << 30}},
		Candidates:   []record.Candidate{{UID: "web-1", Pod: "shop/web", Priority: 1000, MemoryRequest: 1 << 30, Usage: 2 << 30}, {UID: "new-1", Pod: "shop/new", State: record.StateNoStats}},
		Order:        []int{1, 0}, Protected: []record.Protected{{UID: "dns-1", Pod: "kube-system/dns", Rule: "critical or static"}, {UID: "x", Pod: "shop/x", Rule: "being evicted"}},
		Victim: &record.Victim{Pod: "shop/new", Signal: "memory.available", GraceSeconds: 60},
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
	case len(s.Pods) != 3 || *s.Pods[2].Spec.Priority != criticalPriority || len(s.Steps) != 4 || s.Steps[2].AdvanceSeconds != 29.999:
		t.Errorf("%d pods, steps %+v", len(s.Pods), s.Steps)
	case !strings.Contains(string(s.Steps[2].Summary), `"availableBytes":1073741823`) || !strings.Contains(string(s.Steps[3].Summary), `"availableBytes":1153433600`):
		t.Errorf("what was prolonged was not first below the threshold itself: %s, %s", s.Steps[2].Summary, s.Steps[3].Summary)
	case strings.Contains(string(s.Steps[3].Summary), "new-1") || !strings.Contains(string(s.Steps[3].Summary), `"uid":"web-1"`):
		t.Errorf("figures of pods: %s", s.Steps[3].Summary)
	}
}

func TestWhatIsNoChoiceBetweenPodsIsNotReplayed(t *testing.T) {
	for why, r := range map[string]*record.Record{
		"is of no choice between pods":       {ID: "r1", Kind: record.KindLimit},
		"acme.example/nvme.spare, which no ": {ID: "r1", Thresholds: []record.Threshold{{Signal: "acme.example/nvme.spare", Quantity: "1", Acted: true}}, Candidates: []record.Candidate{{}}},
	} {
		if _, err := FromRecord(r); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
}
