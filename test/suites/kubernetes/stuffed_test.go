package kubernetes_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/fakes/stuffed"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// Six pods of 1.4 MB, all of them ended, had evictd killed at the chart's limit for as long as they
// existed. What evictd takes with those that a real API server accepts is printed, for a list and for
// a watch that begins with one.
func TestPodsOfARealAPIServerAreBounded(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("its minute is part of make nightly; the gate has TestFiveHundredPodsOf1400KBStayBelow128MiB")
	}
	const each, mostMiB = 20, 128
	c := start(t, cluster.Options{})
	kubeconfig := account(t, c)
	must(t, c.StopPart(soon(t), "kubelet")) // which would refuse them one by one
	pods := c.Client.CoreV1().Pods("default")
	var creating sync.WaitGroup
	shapes := stuffed.Shapes()
	for _, name := range []string{"args", "command", "env", "finalizers", "hostAliases", "labels", "preStop"} { // others it does not accept, or not in time
		creating.Go(func() {
			for i := range each {
				pod := &v1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("stuffed-%s-%d", strings.ToLower(name), i)},
					Spec: v1.PodSpec{
						NodeName: c.Node, NodeSelector: map[string]string{"example.org/none": "such"}, AutomountServiceAccountToken: new(false),
						Containers: []v1.Container{{Name: "main", Image: stack.PodImage}},
					},
				}
				shapes[name](pod)
				made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
				if err == nil && i%2 == 0 {
					made.Status.Phase = v1.PodFailed
					_, err = pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
				}
				if err != nil {
					t.Errorf("%s: %v", pod.Name, err)
				}
			}
		})
	}
	creating.Wait()
	for _, watchList := range []string{"false", "true"} {
		t.Setenv("KUBE_FEATURE_WatchListClient", watchList)
		p := beside(t, c, kubeconfig, map[string]any{"evictionHard": map[string]any{"memory.available": "1Mi"}, "dryRun": true})
		for ctx := soon(t); ; must(t, stack.Pause(ctx, 100*time.Millisecond)) {
			if status, err := p.Status(ctx); err == nil && strings.Contains(fmt.Sprint(status["manifestProblems"]), " count") {
				break
			}
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
		must(t, err)
		var peakKiB int
		_, after, _ := strings.Cut(string(text), "VmHWM:")
		_, err = fmt.Sscan(after, &peakKiB)
		must(t, err)
		t.Logf("  %d pods, a watch that begins with a list: %s: peak of evictd %d MiB", 7*each, watchList, peakKiB>>10)
		if peakKiB>>10 > mostMiB {
			t.Errorf("%d MiB, want %d at most", peakKiB>>10, mostMiB)
		}
		must(t, p.Stop())
	}
}
