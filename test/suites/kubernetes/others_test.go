package kubernetes_test

import (
	"context"
	"maps"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A pod over its emptyDir's limit was evicted by the kubelet, and evictd evictions had no record of it. Each
// is listed once, and not what evictd evicted itself.
func TestEvictionsOfOthersAreListed(t *testing.T) {
	c := start(t, cluster.Options{})
	config := map[string]any{"stateDir": t.TempDir(), "dryRun": true, "evictionHard": map[string]any{"memory.available": "1Mi"}}
	rights := account(t, c)
	p := beside(t, c, rights, config)
	must(t, c.Apply(soon(t), barePod("over", writer("/scratch", "30", "sizeLimit: 20Mi", "100Mi", "20Mi"))))
	must(t, c.Apply(soon(t), barePod("drained", sleeper())))
	over := awaitPod(soon(t), t, c, "over", func(p *v1.Pod) bool { return p.Status.Reason == "Evicted" })
	drained := awaitPod(soon(t), t, c, "drained", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	_, err := c.Kubectl(soon(t), "", "drain", c.Node, "--force", "--delete-emptydir-data", "--pod-selector=app=drained")
	must(t, err)

	stateDir := config["stateDir"].(string)
	byKubelet := awaitRow(soon(t), t, stateDir, "by the kubelet", "default/over")
	if !strings.Contains(byKubelet, over.Status.Message[:40]) {
		t.Errorf("%s: want the kubelet's message %q", byKubelet, over.Status.Message)
	}
	awaitRow(soon(t), t, stateDir, "by the eviction API", "default/"+drained.Name)
	text := evictdSays(soon(t), t, "explain", "--state-dir", stateDir, string(over.UID))
	if !strings.Contains(text, "default/over was evicted by the kubelet") || !strings.Contains(text, strings.TrimSpace(over.Status.Message)) {
		t.Errorf("explained: %s", text)
	}

	must(t, p.Stop())
	acts := maps.Clone(config)
	acts["dryRun"], acts["evictionHard"] = false, map[string]any{"nodefs.available": "99.9%"}
	p = beside(t, c, rights, acts) // has the pods anew
	_, err = c.Kubectl(soon(t), "", "uncordon", c.Node)
	must(t, err)
	must(t, c.Apply(soon(t), barePod("own", sleeper())))
	awaitPod(soon(t), t, c, "own", func(p *v1.Pod) bool { return p.Status.Reason == "Evicted" })
	must(t, p.Stop())

	p = beside(t, c, rights, config)
	must(t, c.Apply(soon(t), barePod("last", sleeper())))
	awaitPod(soon(t), t, c, "last", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	_, err = c.Kubectl(soon(t), "", "drain", c.Node, "--force", "--delete-emptydir-data", "--pod-selector=app=last")
	must(t, err)
	awaitRow(soon(t), t, stateDir, "by the eviction API", "default/last")
	list := evictdSays(soon(t), t, "evictions", "--state-dir", stateDir)
	if strings.Count(list, "  by the ") != 3 || !regexp.MustCompile(`  eviction +default/own `).MatchString(list) {
		t.Errorf("after restarts: %s", list)
	}
	t.Log(list)
	must(t, p.Stop())
}

// awaitRow returns the row of evictd evictions with all of these texts, once there is one.
func awaitRow(ctx context.Context, t *testing.T, stateDir string, texts ...string) string {
	t.Helper()
	for {
		list := evictdSays(ctx, t, "evictions", "--state-dir", stateDir)
	rows:
		for row := range strings.Lines(list) {
			for _, text := range texts {
				if !strings.Contains(row, text) {
					continue rows
				}
			}
			t.Log("  ", row)
			return row
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no row has %q: %s", texts, list)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func evictdSays(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(ctx, "../../../bin/evictd", args...).CombinedOutput()
	if err != nil && ctx.Err() == nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}
