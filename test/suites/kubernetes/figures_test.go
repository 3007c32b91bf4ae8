package kubernetes_test

import (
	"os"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// number returns the number of repetitions that the environment sets.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text, set := os.LookupEnv(name)
	if !set {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q, want a number from 1 on", name, text)
	}
	return n
}

func median(of []float64) float64 { return quantile(of, 0.5) }

// quantile is the value that the share of all does not exceed, 0 of none.
func quantile(of []float64, share float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// unharmed fails the test unless a pod that did nothing runs as it did.
func unharmed(t *testing.T, c *cluster.Cluster, pod *v1.Pod) {
	t.Helper()
	now, err := c.Client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	must(t, err)
	if now.Status.Phase != v1.PodRunning || now.UID != pod.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("pod %s, which did nothing, is %s, restarted %d times: %s", now.Name, now.Status.Phase, now.Status.ContainerStatuses[0].RestartCount, now.Status.Message)
	}
}
