package paritytest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/paritytest/generate"
	"github.com/evictd/evictd/host/paritytest/kubelet"
)

// What once was a difference is none any more. Each file of testdata is one, cut
// down from the scenario that showed it.
func TestFormerDifferences(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			trace, err := replay.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			trace.Scenario.Config.Compatibility = kubelet.Minor
			ours, difference, want, err := judge(t, trace.Scenario)
			if err != nil {
				t.Fatal(err)
			}
			if difference != nil {
				t.Error(report(trace.Scenario, ours.Decisions, want, difference))
			}
		})
	}
}

// What a comparison writes down evictctl replay can read: the generator makes no
// scenario that it would refuse.
func TestScenariosCanBeReplayed(t *testing.T) {
	for seed := range int64(40) {
		if err := readable(t, seed); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func readable(t *testing.T, seed int64) error {
	t.Helper()
	s := generate.Scenario(seed)
	data, err := json.Marshal(replay.Trace{Scenario: s})
	if err != nil {
		return err
	}
	file := filepath.Join(t.TempDir(), s.Name+".json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	_, err = replay.Read(file)
	return err
}
