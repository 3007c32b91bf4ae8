package kubernetes_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// The kubelet's hard threshold is 200 MiB below that of evictd, and a hog that goes on when it
// gets SIGTERM crosses both. It goes, once, and nobody else, four times as often as
// EVICTD_RUNS: half of them with a kubelet that the kernel notifies, which then acts
// beside evictd every time. Nobody replaces the hog: a kubelet that crosses its threshold takes
// a pod first that it has not measured yet, such as a replacement.
func TestBothUnderPressure(t *testing.T) {
	times := 4 * number(t, "EVICTD_RUNS", 5)
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	r := newRow(t, c, "--stubborn", "--term-delay-ms", "60000")
	hard := kubelet["evictionHard"].(map[string]any)
	ours := map[string]any{"memory.available": hard["memory.available"]}
	hard["memory.available"] = "1848Mi"
	rights := account(t, c)
	for _, notified := range []bool{false, true} {
		t.Run(fmt.Sprintf("notified %v", notified), func(t *testing.T) {
			if !notified && os.Getenv("EVICTD_NIGHTLY") == "" {
				t.Skip("its minute is part of make nightly")
			}
			kubelet["kernelMemcgNotification"] = notified
			must(t, c.ConfigureKubelet(soon(t), kubelet))
			p := beside(t, c, rights, map[string]any{"evictionHard": ours})
			before := len(r.victims)
			for run := range times / 2 {
				r.add(t, c, barePod)
				r.evict(t)
				_, err := c.Kubectl(soon(t), "", "delete", "pod", "hog", "--wait")
				must(t, err)
				if by := r.evictedBy(t, c); len(by) != len(r.victims) {
					t.Errorf("run %d: %d pods are evicted, want %d: %v", run+1, len(by), len(r.victims), by)
				}
			}
			decided := map[string]int{}
			for _, d := range p.Records("evicting pod") {
				decided[d.String("uid")]++
			}
			count := map[string]int{}
			for _, uid := range r.victims[before:] {
				if decided[string(uid)] > 1 {
					t.Errorf("evictd decided %d times on pod %s, want once", decided[string(uid)], uid)
				}
				if decided[string(uid)] > 0 {
					r.awaitEventBy(t, c, uid, "evictd")
				}
				count[strings.Join(slices.Sorted(maps.Keys(r.evictedBy(t, c)[uid])), " and ")]++
				delete(decided, string(uid))
			}
			if len(decided) > 0 {
				t.Errorf("evictd decided on others, too: %v", decided)
			}
			must(t, p.Stop())
			unharmed(t, c, r.calm)
			t.Logf("  %d hogs, told to be evicted by: %v", times/2, count)
		})
	}
	for _, victim := range r.victims {
		l := r.pods.await(t, "hog", "was evicted", is(victim, func(l life) bool { return endedWithReason(l.Pod) }))
		evicted(t, l.Pod)
		if len(l.Lost) > 0 {
			t.Errorf("pod %s has lost %v", l.Pod.Name, l.Lost)
		}
	}
}

// evictedBy are the pods that somebody has evicted, by their condition or by an event, and
// who tells of it in events.
func (r *row) evictedBy(t *testing.T, c *cluster.Cluster) map[types.UID]map[string]bool {
	t.Helper()
	by := map[types.UID]map[string]bool{}
	add := func(uid types.UID, who string) {
		if by[uid] == nil {
			by[uid] = map[string]bool{}
		}
		by[uid][who] = true
	}
	for _, app := range []string{"hog", "calm"} {
		all, _ := r.pods.all(app)
		for _, l := range all {
			if condition(l.Pod, v1.DisruptionTarget) != nil {
				add(l.Pod.UID, "")
			}
		}
	}
	events, err := c.Client.CoreV1().Events(metav1.NamespaceDefault).List(soon(t), metav1.ListOptions{FieldSelector: "reason=Evicted"})
	must(t, err)
	for _, e := range events.Items {
		add(e.InvolvedObject.UID, e.Source.Component)
	}
	for _, who := range by {
		delete(who, "")
	}
	return by
}

func (r *row) awaitEventBy(t *testing.T, c *cluster.Cluster, uid types.UID, who string) {
	t.Helper()
	_, err := cluster.Await(soon(t), c.Client.CoreV1().RESTClient(), "events", metav1.NamespaceDefault, fields.OneTermEqualSelector("reason", "Evicted"), func(e *v1.Event) (bool, error) {
		return e.InvolvedObject.UID == uid && e.Source.Component == who, nil
	})
	must(t, err)
}

// Two evictd run on one node by mistake, each with a run directory of its own: the hog goes, and nobody else.
func TestTwoEvictdOnANode(t *testing.T) {
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	calm := deploy(t, c, "calm", sleeper())
	spec, station := newHog(t, c, "hog", 1536)
	hog := deploy(t, c, "hog", spec)
	rights, hard := account(t, c), leaveToEvictd(t, c, kubelet)
	first, second := beside(t, c, rights, map[string]any{"evictionHard": hard}), beside(t, c, rights, map[string]any{"evictionHard": hard})
	awaitMeasured(soon(t), t, c, calm, hog)
	must(t, station.Release(soon(t)))
	victim := awaitPod(soon(t), t, c, "hog", func(p *v1.Pod) bool { return p.UID == hog.UID && endedWithReason(p) })
	evicted(t, victim)
	awaitPod(soon(t), t, c, "hog", func(p *v1.Pod) bool { return p.UID != hog.UID && p.Status.Phase == v1.PodRunning })
	spared(t, c, calm, first, second)
	t.Logf("  decided %d and %d times", len(first.Records("evicting pod")), len(second.Records("evicting pod")))
	must(t, first.Stop())
	must(t, second.Stop())
}
