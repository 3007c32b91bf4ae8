package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

const hugePageBytes = 2 << 20

// reserveHugePages reserves a pool of huge pages until the test ends and returns its size in bytes, which
// is less where memory is fragmented.
func reserveHugePages(t *testing.T, pages int) int64 {
	t.Helper()
	const file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	before, err := os.ReadFile(file)
	must(t, err)
	t.Cleanup(func() { must(t, os.WriteFile(file, before, 0)) })
	must(t, os.WriteFile(file, fmt.Append(nil, pages), 0))
	text, err := os.ReadFile(file)
	must(t, err)
	got, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || got < pages/4 {
		t.Fatalf("the kernel gave %d of %d huge pages: %v", got, pages, err)
	}
	return int64(got) * hugePageBytes
}

// memoryOf returns the version whose rules evictd follows, and its first figures of memory.available.
func memoryOf(t *testing.T, p *evictd.Process) (compatibility string, available, capacity int64) {
	t.Helper()
	for ctx := soon(t); ; {
		_, page, err := p.Get(ctx, "/status")
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
			if s.Signal == "memory.available" && s.Capacity > 0 {
				return status.Compatibility, s.Available, s.Capacity
			}
		}
		must(t, stack.Pause(ctx, 20*time.Millisecond))
	}
}

// summaryMemory returns the kubelet's summary, with the available memory in it and its capacity.
func summaryMemory(t *testing.T, c *cluster.Cluster) (page []byte, available, capacity int64) {
	t.Helper()
	page, err := c.Kubelet.Ask(soon(t), "/stats/summary")
	must(t, err)
	var summary struct {
		Node struct {
			Memory struct{ AvailableBytes, WorkingSetBytes int64 }
		}
	}
	must(t, json.Unmarshal(page, &summary))
	memory := summary.Node.Memory
	return page, memory.AvailableBytes, memory.AvailableBytes + memory.WorkingSetBytes
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
	page, _, _ := summaryMemory(t, c)
	file := filepath.Join(t.TempDir(), "summary.json")
	must(t, os.WriteFile(file, page, 0o600))
	for source, config := range map[string]map[string]any{
		"native":  {},
		"summary": {"source": "summary", "summary": daemon.Summary(t, "file://"+file)},
	} {
		t.Run(source, func(t *testing.T) {
			config["evictionHard"] = map[string]any{"memory.available": "1Mi"}
			p := beside(t, c, c.KubeletKubeconfig, config)
			// The kubelet's figure is up to 10 s old, and other programs take and free memory meanwhile.
			for until := time.Now().Add(maxWait); ; time.Sleep(time.Second) {
				_, theirs, theirCapacity := summaryMemory(t, c)
				compatibility, ours, capacity := memoryOf(t, p)
				t.Logf("  kubelet %s: %d MiB available of %d MiB, evictd as %s: %d MiB of %d MiB",
					node.Status.NodeInfo.KubeletVersion, theirs>>20, theirCapacity>>20, compatibility, ours>>20, capacity>>20)
				if !strings.HasPrefix(node.Status.NodeInfo.KubeletVersion, "v"+compatibility+".") {
					t.Errorf("decides as the kubelet of %s, the node's is %s", compatibility, node.Status.NodeInfo.KubeletVersion)
				}
				if capacity != theirCapacity {
					t.Errorf("capacity %d, the kubelet's is %d", capacity, theirCapacity)
				}
				if off := ours - theirs; off > -pool/4 && off < pool/4 || source == "summary" { // of the former's file
					break
				}
				if time.Now().After(until) {
					t.Fatal("the figures of available memory never agreed")
				}
			}
			must(t, p.Stop())
		})
	}
}
