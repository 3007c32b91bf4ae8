package paritytest

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/paritytest/generate"
	"github.com/evictd/evictd/host/paritytest/kubelet"
)

// The kubelet that everything here is compared with comes to each decision that
// another program recorded of it, also where chance has a part in them.
func TestKubeletDecidesAsRecorded(t *testing.T) {
	files, err := filepath.Glob("../../test/traces/*.json*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	outcomes, every := 0, whole(1, 8)
	for i, file := range files {
		if i%every != 0 {
			continue
		}
		trace, err := replay.Read(file)
		if err != nil {
			t.Error(err)
			continue
		}
		s, recorded := trace.Scenario, trace.Decisions
		if s.Config.Compatibility > kubelet.Minor { // recorded of a newer one
			continue
		}
		if on, set := s.Config.FeatureGates["PodLevelResources"]; set && !on {
			maps.Copy(s.Config.FeatureGates, generate.WithoutPodLevelResources())
		}
		got, err := theKubelet.Walk(t.Context(), s, func(at *kubelet.Step) error {
			i := at.Index
			if i >= len(recorded.Steps) {
				return nil
			}
			for n := range recorded.Steps[i].Outcomes {
				outcomes++
				if !kubelet.Find(s, &recorded.Steps[i].Outcomes[n], at) {
					t.Errorf("%s: steps[%d].outcomes[%d] is recorded, and was not found", file, i, n)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if d := replay.Compare(s, preferred(recorded), got); d != nil {
			t.Errorf("%s: %s", file, d)
		}
	}
	t.Logf("%d recorded outcomes found again, in %d of %d traces", outcomes, (len(files)+every-1)/every, len(files))
}

// preferred is d with one outcome for each step.
func preferred(d *replay.Decisions) *replay.Decisions {
	out := *d
	out.Steps = slices.Clone(d.Steps)
	for i := range out.Steps {
		out.Steps[i].Outcomes = out.Steps[i].Outcomes[:1]
	}
	return &out
}
