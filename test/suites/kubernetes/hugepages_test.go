package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

const hugePageBytes = 2 << 20

// reserveHugePages reserves a pool of huge pages until the test ends and returns its size in bytes.
func reserveHugePages(t *testing.T, pages int) int64 {
	t.Helper()
	const file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	before, err := os.ReadFile(file)
	must(t, err)
	t.Cleanup(func() { must(t, os.WriteFile(file, before, 0)) })
	must(t, os.WriteFile(file, fmt.Append(nil, pages), 0))
	text, err := os.ReadFile(file)
	must(t, err)
	if got := strings.TrimSpace(string(text)); got != fmt.Sprint(pages) {
		t.Fatalf("the kernel gave %s of %d huge pages", got, pages)
	}
	return int64(pages) * hugePageBytes
}

// memoryOf returns the version whose rules evictd follows, and its figures of memory.available.
func memoryOf(t *testing.T, p *evictd.Process) (compatibility string, available, capacity int64) {
	t.Helper()
	_, page, err := p.Get(soon(t), "/status")
	must(t, err)
	var status struct {
		Compatibility string
		Signals       []struct {
			Signal              string
			Available, Capacity int64
		}
	}
	must(t, json.Unmarshal(page, &status))
	for _, s := range status.Signals {
		if s.Signal == "memory.available" {
			return status.Compatibility, s.Available, s.Capacity
		}
	}
	t.Fatalf("no figure of memory.available: %s", page)
	return "", 0, 0
}

// evictd has the kubelet's figures of memory on a node with huge pages, from the machine and from
// the kubelet's summary, and follows the version of the kubelet.
func TestHugePagesCountAsInTheKubelet(t *testing.T) {
	require(t)
	pool := reserveHugePages(t, 256)
	c := start(t, cluster.Options{})
	deploy(t, c, "web", sleeper())
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), c.Node, metav1.GetOptions{})
	must(t, err)
	if of := node.Status.Capacity["hugepages-2Mi"]; of.Value() != pool {
		t.Fatalf("the Node has %s of huge pages, want %d bytes", of.String(), pool)
	}
	page, err := c.Kubelet.Ask(soon(t), "/stats/summary")
	must(t, err)
	var summary struct {
		Node struct {
			Memory struct{ AvailableBytes, WorkingSetBytes int64 }
		}
	}
	must(t, json.Unmarshal(page, &summary))
	memory := summary.Node.Memory
	t.Logf("  kubelet %s: %d MiB available of %d MiB", node.Status.NodeInfo.KubeletVersion, memory.AvailableBytes>>20, (memory.AvailableBytes+memory.WorkingSetBytes)>>20)
	file := filepath.Join(t.TempDir(), "summary.json")
	must(t, os.WriteFile(file, page, 0o600))
	for source, config := range map[string]map[string]any{
		"native":  {},
		"summary": {"source": "summary", "summary": map[string]any{"address": "file://" + file, "layout": "shared"}},
	} {
		t.Run(source, func(t *testing.T) {
			config["evictionHard"] = map[string]any{"memory.available": "1Mi"}
			p := beside(t, c, c.KubeletKubeconfig, config)
			compatibility, available, capacity := memoryOf(t, p)
			t.Logf("  evictd as %s: %d MiB available of %d MiB", compatibility, available>>20, capacity>>20)
			if !strings.HasPrefix(node.Status.NodeInfo.KubeletVersion, "v"+compatibility+".") {
				t.Errorf("decides as the kubelet of %s, the node's is %s", compatibility, node.Status.NodeInfo.KubeletVersion)
			}
			if want := memory.AvailableBytes + memory.WorkingSetBytes; capacity != want {
				t.Errorf("capacity %d, the kubelet's is %d", capacity, want)
			}
			if off := available - memory.AvailableBytes; off < -pool/2 || off > pool/2 {
				t.Errorf("available %d, the kubelet's is %d", available, memory.AvailableBytes)
			}
			must(t, p.Stop())
		})
	}
}
