package structure_test

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// paces has the timers in code that sends requests to the API server, by file, with what keeps the nodes of a cluster from
// sending together, or that no request follows. docs/production.md has the figures.
var paces = map[string]map[string]string{
	"host/internal/cluster/kubeapi/client.go":                  {"time.After": "no daemon: the end of a DaemonSet is awaited by one Job"},
	"host/internal/cluster/kubeapi/reflector.go":               {"wait.Backoff": "Jitter 1, by its own options"},
	"host/internal/cluster/kubeapi/spread.go":                  {"time.After": "rand.N(spreadOver)"},
	"host/internal/cluster/nodestatus/nodestatus.go":           {"time.After": "no request", "time.NewTimer": "rand.N, wait.Jitter or the backoff's", "backoff.NewExponentialBackOff": "at random by 50 %"},
	"host/internal/cluster/podsource/kubernetes/kubernetes.go": {"time.NewTimer": "no request"},
	"host/internal/cluster/podsource/kubernetes/saved.go":      {"time.After": "no request"},
	"host/internal/cluster/victim/kubernetes/killer.go":        {"time.NewTimer": "no request, or after a conflict about one pod"},
	"host/internal/cluster/victim/kubernetes/seen.go":          {"time.NewTimer": "no request"},
	"host/internal/cluster/victim/kubernetes/tell.go":          {"backoff.NewExponentialBackOff": "at random by 50 %, and Retry-After with as much at random"},
	"host/internal/face/inspect/watch.go":                      {"time.After": "requests follow a pace, rand.N and wait.Jitter"},
	"host/kubeletversion.go":                                   {"time.After": "wait.Jitter"},
}

// Thousands of evictds at one API server wait at random: a timer that is not in the table would let all send at once.
func TestWhatWaitsBeforeARequestWaitsAtRandom(t *testing.T) {
	timers := []string{"time.After", "time.AfterFunc", "time.NewTicker", "time.NewTimer", "time.Tick", "wait.Backoff", "backoff.NewExponentialBackOff", "backoff.NewConstantBackOff"}
	for _, f := range files(t) {
		if f.test || !strings.HasPrefix(f.dir, "host/internal/cluster") && f.dir != "host/internal/face/inspect" && f.path != "host/kubeletversion.go" {
			continue
		}
		found := map[string]bool{}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if name := fmt.Sprintf("%v.%s", s.X, s.Sel.Name); slices.Contains(timers, name) || strings.HasPrefix(name, "wait.") && strings.Contains(name, "Until") {
					found[name] = true
				}
			}
			return true
		})
		want := slices.Sorted(maps.Keys(paces[f.path]))
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
			t.Errorf("%s waits by %v, and the table has %v: say there what keeps many nodes from sending at once", f.path, got, want)
		}
		delete(paces, f.path)
	}
	if len(paces) > 0 {
		t.Errorf("no files: %v", slices.Sorted(maps.Keys(paces)))
	}
}
