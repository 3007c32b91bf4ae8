package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/harness/evictd"
)

// soon bounds a wait on this kernel, on a machine with other work.
const soon = 90 * time.Second

type (
	eviction  struct{ Pod, Signal, State, Ranker, RankReason string }
	threshold struct{ Signal, Value string }
	signal    struct {
		Signal    string
		Available int64
	}
	page struct {
		Passes     int
		Time       time.Time
		Evictions  []eviction
		Thresholds []threshold
		Signals    []signal
		Cgroups    struct{ Driver string }
	}
)

// get fetches a page of the installed evictd; it has none while it does not run.
func get(path string) (code int, text string) {
	code, page, err := evictd.Get(context.Background(), "/run/evictd", path)
	if err != nil {
		return 0, err.Error()
	}
	return code, string(page)
}

func status(t *testing.T) (p page) {
	t.Helper()
	if code, text := get("/status"); code != http.StatusOK || json.Unmarshal([]byte(text), &p) != nil {
		t.Fatalf("/status: %d %s", code, text)
	}
	return p
}

func awaitUp(t *testing.T, plugin string) {
	t.Helper()
	want := fmt.Sprintf("evictd_plugin_up{plugin=%q} 1\n", plugin)
	eventually(t, plugin+" is up", func() bool {
		_, metrics := get("/metrics")
		return strings.Contains(metrics, want)
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(soon); !holds(); <-tick.C {
		if time.Now().After(until) {
			t.Fatalf("not in %v: %s", soon, what)
		}
	}
}

func readYAML(t *testing.T, file string) (out map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	must(t, err)
	must(t, yaml.Unmarshal(raw, &out))
	return out
}

func writeYAML(t *testing.T, file string, content map[string]any) {
	t.Helper()
	raw, err := yaml.Marshal(content)
	must(t, err)
	must(t, os.WriteFile(file, raw, 0o644))
}
