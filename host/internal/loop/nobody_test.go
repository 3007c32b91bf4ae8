package loop

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// With all manifests gone the log said each second that no pod can be evicted, of
// three active ones, and not why.
func TestWhyNoPodCanBeEvicted(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.pods, n.available = nil, gi/2
		n.addPod("stranger", 1)
		n.addPod("unknown", 1)
		n.pods[0].HasManifest, n.pods[1].HasManifest = false, false
		n.addPod("important", 1)
		priority := int32(2_000_000_000)
		n.pods[2].API.Spec.Priority = &priority
		n.addPod("vetoed", 1)
		n.addRanker("nobody", func(eviction.RankRequest) ([]eviction.Ranked, error) { return []eviction.Ranked{}, nil })
		s := settings(t, hard("1Gi"))
		s.RankVeto = VetoAlways
		n.run(s, rundir.State{})
		n.settle()
		if want := `reason="2 without a manifest, 1 critical or static, 1 left out by the ranker"`; !strings.Contains(n.log.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
		w := httptest.NewRecorder()
		n.loop.Metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		if body, _ := io.ReadAll(w.Body); !strings.Contains(string(body), "evictd_pods_unmanaged 2") {
			t.Error("the metric does not say that two pods are unmanaged")
		}
	})
}

// With no manifest at all evictd was healthy while the node ran out of memory.
func TestPodsWithoutAManifestAloneAreAnErrorWhileAHardThresholdIsMet(t *testing.T) {
	const met = "memory.available is below 1Gi and no pod can be evicted: 1 of 2 active pods have no manifest"
	for name, c := range map[string]struct {
		manifest, critical bool // of the other pod
		available          int64
		soft               bool
		want               string
	}{
		"the other one is critical": {true, true, gi / 2, false, met},
		"both have none":            {false, false, gi / 2, false, strings.Replace(met, "1 of 2", "2 of 2", 1)},
		"the node is well":          {false, false, 4 * gi, false, ""},
		"a soft threshold alone":    {false, false, gi / 2, true, ""},
		"the other one was evicted": {true, false, gi / 2, false, strings.Replace(met, "1 of 2", "1 of 1", 1)},
		"the other one is left out": {true, false, gi / 2, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.pods, n.available = nil, c.available
				n.addPod("stranger", 1)
				n.pods[0].HasManifest = false
				n.addPod("other", 1)
				n.pods[1].HasManifest = c.manifest
				if priority := int32(2_000_000_000); c.critical {
					n.pods[1].API.Spec.Priority = &priority
				}
				config := hard("1Gi")
				if c.soft {
					config = soft("1Gi", "1s")
				}
				n.run(settings(t, config), rundir.State{})
				n.after(12 * time.Second) // the pace after one that was not enough
				got := ""
				if err := n.loop.Snapshot().Unevictable(); err != nil {
					got = err.Error()
				}
				logged := strings.Contains(n.log.String(), "level=ERROR msg=\"no pod can be evicted\"")
				if got != c.want || logged != (c.want != "") {
					t.Errorf("%q, in the log as an error: %v, want %q", got, logged, c.want)
				}
				n.set(8 * gi)
				n.after(20 * time.Second)
				if err := n.loop.Snapshot().Unevictable(); err != nil {
					t.Errorf("%v, with the node well", err)
				}
			})
		})
	}
}
