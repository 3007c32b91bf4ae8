package kubernetes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A kubelet that has evictd's soft threshold, with a grace period that never ends, keeps the
// standard condition and taint while evictd does the evicting: it refuses a BestEffort pod with
// its own reason, and lets it in when the pressure and its transition period are over.
func TestTheKubeletKeepsTheCondition(t *testing.T) {
	const transition = 5 * time.Second
	began := time.Now().Truncate(time.Second) // as of an event's times
	c := start(t, cluster.Options{})
	pods := begin(t, c)
	calm := deploy(t, c, "calm", sleeper())
	spec, station := newHog(t, c, "hog", 2304)
	must(t, c.Apply(t.Context(), deployment("hog", spec)))
	rights := account(t, c)
	hog := pods.awaitWaiting(t, "hog")
	// Of what all pods together may use there is no soft threshold: it is the machine's, of which others
	// take, too.
	available, err := crossing.Available()
	must(t, err)
	soft := map[string]any{"memory.available": fmt.Sprintf("%dMi", available>>20-1500)}
	must(t, c.ConfigureKubelet(soon(t), map[string]any{
		"evictionSoft": soft, "evictionSoftGracePeriod": map[string]any{"memory.available": "8760h"},
		"evictionPressureTransitionPeriod": transition.String(),
	}))
	awaitMeasured(soon(t), t, c, calm, hog)
	// evictd lets the pressure last for longer than the kubelet needs to see it.
	p := beside(t, c, rights, map[string]any{
		"evictionHard": map[string]any{}, "evictionSoft": soft, "evictionSoftGracePeriod": map[string]any{"memory.available": "30s"}, "evictionMaxPodGracePeriod": 30,
	})
	must(t, station.Release(soon(t)))
	full, err := station.WaitStamp(soon(t), "full")
	must(t, err)

	awaitPressure(t, c, true)
	t.Logf("  condition and taint %.1f s after the hog is full", float64(crossing.Now()-full)/1e9)
	// One comes to the node whatever the scheduler thinks of it, one waits for the scheduler.
	must(t, c.Apply(soon(t), barePod("refused", with(idler(), "nodeName: "+c.Node))+"---"+barePod("waiting", idler())))
	refused := pods.await(t, "refused", "has failed", func(l life) bool { return l.Pod.Status.Phase == v1.PodFailed }).Pod
	if s := refused.Status; s.Reason != "Evicted" || s.Message != "Pod was rejected: The node had condition: [MemoryPressure]. " || len(s.ContainerStatuses) > 0 || condition(refused, v1.DisruptionTarget) != nil {
		t.Errorf("the BestEffort pod under pressure: %+v; want it refused by the kubelet", s)
	}
	awaitEvent(soon(t), t, c, refused, "Evicted")
	pods.await(t, "waiting", "is kept away by the taint", func(l life) bool {
		s := condition(l.Pod, v1.PodScheduled)
		return s != nil && s.Reason == v1.PodReasonUnschedulable && strings.Contains(s.Message, "untolerated taint")
	})
	if n := len(p.Records("evicting pod")); n > 0 {
		t.Fatalf("evictd has evicted %d pods before its grace period was over", n)
	}

	victim := pods.await(t, "hog", "is evicted and has ended", is(hog.UID, func(l life) bool { return endedWithReason(l.Pod) && condition(l.Pod, v1.DisruptionTarget) != nil })).Pod
	evicted(t, victim)
	over := crossing.Now()
	awaitPressure(t, c, false)
	t.Logf("  neither is left %.1f s after the hog was seen to be gone, with a transition period of %s", float64(crossing.Now()-over)/1e9, transition)
	pods.await(t, "waiting", "runs", func(l life) bool { return ready(l.Pod) })
	_, err = c.Kubectl(soon(t), "", "delete", "pod", "refused", "--wait")
	must(t, err)
	must(t, c.Apply(soon(t), barePod("refused", with(idler(), "nodeName: "+c.Node))))
	pods.await(t, "refused", "runs", func(l life) bool { return ready(l.Pod) })

	events, err := c.Client.CoreV1().Events(metav1.NamespaceAll).List(soon(t), metav1.ListOptions{})
	must(t, err)
	for _, e := range events.Items {
		if e.Source.Component == "kubelet" && !e.LastTimestamp.Time.Before(began) && (e.Reason == "Evicted" && e.InvolvedObject.UID != refused.UID || e.Reason == "EvictionThresholdMet") {
			t.Errorf("the kubelet has evicted on its own: %s %s: %s", e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	if n := len(p.Records("evicting pod")); n != 1 {
		t.Errorf("evictd evicted %d pods, want 1", n)
	}
	unharmed(t, c, calm)
	must(t, p.Stop())
}

// awaitPressure waits until the node has both MemoryPressure and its taint, or neither.
func awaitPressure(t *testing.T, c *cluster.Cluster, want bool) {
	t.Helper()
	_, err := c.AwaitNode(soon(t), func(n *v1.Node) bool {
		tainted := slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool {
			return t.Key == v1.TaintNodeMemoryPressure && t.Effect == v1.TaintEffectNoSchedule
		})
		return want == (cluster.NodeCondition(n, v1.NodeMemoryPressure) == v1.ConditionTrue) && want == tainted
	})
	must(t, err)
}

// idler is the spec of a BestEffort pod that does nothing.
func idler() string {
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, containers: [
      {name: main, image: %s, imagePullPolicy: Never, command: [sleep, "100000"]}]}`, stack.PodImage)
}
