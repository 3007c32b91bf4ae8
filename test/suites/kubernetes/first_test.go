package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack/crossing"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// Kubelets as distributions set them up on a node of 8 GiB, beside the chart's 5%: the side that check names evicts the hog, and
// the other one nothing. Amounts count from a level below what is available, and are so far apart that what others on the
// machine take meanwhile does not matter.
func TestWhoActsFirst(t *testing.T) {
	const level, ours = 2300, 400 // MiB
	c := start(t, cluster.Options{})
	calm := deploy(t, c, "calm", sleeper())
	rights := account(t, c)
	for i, story := range []struct {
		name       string
		hard, soft int64
		takes      int // MiB at once
		byEvictd   bool
		says       string
	}{
		{"kubeadm", 100, 0, 2100, true, "evictd, below "},
		{"AKS, in a sudden shortage", 100, 1500, 2100, true, "; in a sudden one evictd, below "},
		{"AKS, in a slow shortage", 100, 1500, 1350, false, "in a slow shortage the kubelet, below "},
		{"AKS with a custom configuration", 1500, 0, 1350, false, "the kubelet, below "},
	} {
		t.Run(story.name, func(t *testing.T) {
			name := fmt.Sprintf("hog%d", i)
			spec, station := newHog(t, c, name, story.takes)
			must(t, c.Apply(soon(t), barePod(name, spec)))
			awaitPod(soon(t), t, c, name, ready)
			available, err := crossing.Available()
			must(t, err)
			below := func(mib int64) string { return fmt.Sprintf("%dMi", available>>20-level+mib) }
			hard := cluster.CalmThresholds()
			hard["memory.available"] = below(story.hard)
			kubelet := map[string]any{"evictionHard": hard, "evictionPressureTransitionPeriod": "1s"}
			if story.soft != 0 {
				kubelet["evictionSoft"], kubelet["evictionSoftGracePeriod"] = map[string]any{"memory.available": below(story.soft)}, map[string]any{"memory.available": "30s"}
			}
			must(t, c.ConfigureKubelet(soon(t), kubelet))
			config := map[string]any{
				"mode": "kubernetes", "kubeconfig": rights, "nodeName": c.Node, "kubeletRootDir": c.KubeletRootDir, "memoryFigure": "kubelet", "besideKubelet": "running",
				"evictionHard": map[string]any{"memory.available": below(ours)},
			}
			if first := actsFirst(t, config); !strings.Contains(first, story.says) {
				t.Errorf("check says %q, want %q in it", first, story.says)
			}
			p := beside(t, c, rights, config)
			awaitMeasured(soon(t), t, c, calm, awaitPod(soon(t), t, c, name, ready))
			must(t, station.Release(soon(t)))
			victim := awaitPod(soon(t), t, c, name, func(p *v1.Pod) bool { return ended(p) && condition(p, v1.DisruptionTarget) != nil })
			at, err := station.Stamps()
			must(t, err)
			if marked := victim.Annotations["evictd.io/evicted"] != ""; marked != story.byEvictd {
				t.Errorf("evicted by evictd: %v, want %v: %s", marked, story.byEvictd, victim.Status.Message)
			}
			t.Logf("  SIGTERM %v after the hog began", time.Duration(at["term"]-at["go"]).Round(time.Millisecond))
			unharmed(t, c, calm)
			must(t, p.Stop())
			_, err = c.Kubectl(soon(t), "", "delete", "pod", name, "--wait")
			must(t, err)
		})
	}
}

// actsFirst returns what check says about memory.available beside the kubelet that runs.
func actsFirst(t *testing.T, config map[string]any) string {
	t.Helper()
	file, err := evictd.Configure(t.TempDir(), config)
	must(t, err)
	out, err := exec.CommandContext(soon(t), "../../../bin/evictctl", "check", "--start-plugins=false", "--json", "--config", file).Output()
	var said struct {
		Beside struct {
			Findings []struct{ Signal, About, Text string }
		}
	}
	if bad := json.Unmarshal(out, &said); bad != nil {
		t.Fatalf("evictctl check: %v: %v", err, bad)
	}
	i := slices.IndexFunc(said.Beside.Findings, func(f struct{ Signal, About, Text string }) bool {
		return f.Signal == "memory.available" && f.About == "acts first"
	})
	if i < 0 {
		t.Fatalf("evictctl check says nothing about memory.available: %s", out)
	}
	t.Log("  ", said.Beside.Findings[i].Text)
	return said.Beside.Findings[i].Text
}
