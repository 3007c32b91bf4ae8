package loop

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

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
