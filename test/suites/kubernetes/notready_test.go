package kubernetes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// The command of the README on a node that has its parts elsewhere was "deployed", its pod 0/1 for ever,
// with eight values to guess. The commands of NOTES name them.
func TestNotesNameWhatANodeHasElsewhere(t *testing.T) {
	c := start(t, cluster.Options{})
	h := newChart(t, c)
	// The socket of this cluster is linked at its usual place, which evictd follows.
	h.values = map[string]any{"image": h.values["image"], "hostPaths": map[string]any{"runtimeSocket": "/run/crio/crio.sock"}}
	if out, err := h.tryValues(t, 5*time.Second); err == nil {
		t.Errorf("the pod is ready: %s", out)
	}
	for command, want := range map[string]string{
		"exec ds/evictd -- evictctl check --start-plugins=false": `runtimeEndpoint: "unix:///host/run/crio/crio.sock": does not exist`,
		"logs ds/evictd": "want an API server that nodes reach: apiServer.host and apiServer.port of the chart",
	} {
		for ctx := soon(t); ; must(t, stack.Pause(ctx, time.Second)) { // its container may be about to start
			out, err := c.Kubectl(ctx, "", strings.Fields("-n evictd "+command)...)
			if err != nil {
				out += err.Error()
			}
			if strings.Contains(out, want) {
				break
			}
			t.Logf("  without %q: %.200s", want, out)
		}
	}
}
