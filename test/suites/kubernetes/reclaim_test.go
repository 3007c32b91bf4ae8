package kubernetes_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// Evicted pods stay in the API server. With removeEvictedPodsAfter those that evictd has evicted, and has a record of,
// go after a time, where the policy lets them. Those that the kubelet has evicted stay, and so do evictd's without
// their record.
func TestEvictedPodsEnd(t *testing.T) {
	c := start(t, cluster.Options{})
	rights, dir := account(t, c), t.TempDir()
	acts := map[string]any{"stateDir": dir, "evictionHard": map[string]any{"nodefs.available": "99.9%"}}
	rests := func(more ...any) map[string]any {
		config := map[string]any{"stateDir": dir, "evictionHard": map[string]any{"memory.available": "1Mi"}}
		for i := 0; i < len(more); i += 2 {
			config[more[i].(string)] = more[i+1]
		}
		return config
	}
	p := beside(t, c, rights, acts)
	evict := func(name string) *v1.Pod {
		t.Helper()
		must(t, c.Apply(soon(t), barePod(name, sleeper())))
		pod := awaitPod(soon(t), t, c, name, func(p *v1.Pod) bool { return p.Status.Reason == "Evicted" })
		awaitRow(soon(t), t, dir, "default/"+name, "gone after")
		return pod
	}
	evict("own")
	lost := evict("lost")
	must(t, p.Stop())
	records, err := filepath.Glob(filepath.Join(dir, "records", "*_"+string(lost.UID)+".json.gz"))
	must(t, err)
	if len(records) != 1 {
		t.Fatalf("records of %s: %q", lost.Name, records)
	}
	must(t, os.Remove(records[0]))

	p = beside(t, c, rights, rests("dryRun", true, "removeEvictedPodsAfter", "10s"))
	must(t, c.Apply(soon(t), barePod("over", writer("/scratch", "30", "sizeLimit: 20Mi", "100Mi", "20Mi"))))
	awaitPod(soon(t), t, c, "over", func(p *v1.Pod) bool { return p.Status.Reason == "Evicted" })
	awaitRow(soon(t), t, dir, "by the kubelet", "default/over")
	wantPods := func(want ...string) {
		t.Helper()
		list, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		var got []string
		for _, p := range list.Items {
			got = append(got, p.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("pods %q, want %q", got, want)
		}
	}
	wantPods("lost", "over", "own") // a dry run removes none
	must(t, p.Stop())

	p = beside(t, c, rights, rests("removeEvictedPodsAfter", "10s"))
	refused, err := p.Await(soon(t), func(r evictd.Record) bool { return r.Msg == "evicted pod not removed" })
	must(t, err)
	if !strings.Contains(refused.String("error"), "the pod has ended already") || refused.String("pod") != "default/own" {
		t.Errorf("refused: %s: %s, want the policy to refuse the removal of default/own", refused.String("pod"), refused.String("error"))
	}
	wantPods("lost", "over", "own")
	must(t, p.Stop()) // it would try again after a minute or two
	_, err = c.Kubectl(soon(t), "", "apply", "-f", "../../../deploy/rbac/policy-removal.yaml")
	must(t, err)
	began := time.Now()
	p = beside(t, c, rights, rests("removeEvictedPodsAfter", "10s"))
	removed, err := p.Await(soon(t), func(r evictd.Record) bool { return r.Msg == "evicted pod removed" })
	must(t, err)
	t.Logf("  %s is removed %.1f s after the policy permits it", removed.String("pod"), time.Since(began).Seconds())
	wantPods("lost", "over")
	must(t, p.Stop())
}
