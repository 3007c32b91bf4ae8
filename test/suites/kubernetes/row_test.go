package kubernetes_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// tolerant is of a pod that comes although the node has no memory left, as a replacement
// that need not wait for the kubelet's next look.
const tolerant = "tolerations: [{key: node.kubernetes.io/memory-pressure, operator: Exists}]"

// looks is the time between two looks of a kubelet at its thresholds.
const looks = 10 * time.Second

// settles is the time for which a pod runs before its memory grows: a kubelet that is still
// busy with the start of a container starts it again when it ends, whatever the API says
// meanwhile, and evictd waits for up to two seconds for the relief of a former eviction.
const settles = 3 * time.Second

// Evictions of a Deployment's hog, one after the other (EVICTD_EVICTIONS), are all complete:
// nothing is restarted in place, the record stays, a replacement is made. What the kubelet
// needs for a few of them stands beside it.
func TestEvictionsInARow(t *testing.T) {
	times := number(t, "EVICTD_EVICTIONS", 5)
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	must(t, hog.WarmUp(soon(t), c.Stack, c.Hog, rowMiB))
	r := newRow(t, c)
	r.add(t, c, deployment)
	of := map[string][]float64{"kubelet": nil, "evictd": nil}
	measure := func(by string) {
		if took, ok := r.evict(t); ok {
			of[by] = append(of[by], took)
		}
	}
	for range max(3, times/6) {
		// Each at another time of the kubelet's, which begins to wait when it has evicted.
		must(t, stack.Pause(soon(t), rand.N(looks)))
		measure("kubelet")
	}

	byKubelet := len(r.victims)
	p := beside(t, c, account(t, c), map[string]any{"evictionHard": leaveToEvictd(t, c, kubelet)})
	for range times {
		measure("evictd")
	}
	must(t, stack.Pause(soon(t), 15*time.Second)) // in which a kubelet writes the status of all its pods anew
	r.pods.awaitWaiting(t, "hog")
	for i, victim := range r.victims {
		l := r.pods.await(t, "hog", "was evicted", is(victim, func(l life) bool { return endedWithReason(l.Pod) }))
		if i >= byKubelet { // of its own ones a kubelet that is started anew may say that it has restarted them
			evicted(t, l.Pod)
			if len(l.Lost) > 0 {
				t.Errorf("pod %s has lost %v", l.Pod.Name, l.Lost)
			}
		}
		if marked := l.Pod.Annotations["evictd.io/evicted"] != ""; marked != (i >= byKubelet) {
			t.Errorf("pod %s, annotation of evictd: %v, want %v", l.Pod.Name, marked, !marked)
		}
	}
	if all, _ := r.pods.all("hog"); len(all) != len(r.victims)+1 {
		t.Errorf("there were %d hogs, want %d and the one that waits", len(all), len(r.victims))
	}
	if n := len(p.Records("evicting pod")); n != times {
		t.Errorf("evictd decided %d times, want %d", n, times)
	}
	unharmed(t, c, r.calm)
	must(t, p.Stop())

	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "by\tmeasured\tp50\tp99\tmost\t")
	for _, by := range []string{"kubelet", "evictd"} {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.1f\t\n", by, len(of[by]), median(of[by]), quantile(of[by], 0.99), quantile(of[by], 1))
	}
	_ = w.Flush() // into memory
	t.Logf("  threshold crossed -> SIGTERM at the hog, ms, by a kubelet with its defaults and by evictd\n%s", out.String())
}

const rowMiB = 1536

// A row is of hogs that are evicted one after the other.
type row struct {
	spec    string
	calm    *v1.Pod
	pods    *chronicle
	station hog.Station
	watch   *crossing.Watch
	crossed chan crossing.Sample
	victims []types.UID
}

// newRow makes a pod that does nothing, and what hogs with these flags need. The thresholds are those of narrow.
func newRow(t *testing.T, c *cluster.Cluster, flags ...string) *row {
	t.Helper()
	r := &row{pods: begin(t, c), crossed: make(chan crossing.Sample, 1)}
	r.calm = deploy(t, c, "calm", sleeper())
	spec, station := newHog(t, c, "hog", rowMiB, flags...)
	r.spec, r.station = with(spec, tolerant), station
	var err error
	r.watch, err = crossing.Start(t.Context(), c.Stack, crossing.Pods(c.Stack))
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for sample := range r.watch.Samples() {
			if sample.Crossed {
				r.crossed <- sample
			}
		}
	}()
	t.Cleanup(func() {
		_ = r.watch.Stop() // its context has ended, and with it the sampler
		<-ended
	})
	return r
}

// add makes an owner of hogs, or one hog, and waits until the kubelet has measured all pods.
func (r *row) add(t *testing.T, c *cluster.Cluster, manifest func(name, podSpec string) string) {
	t.Helper()
	must(t, c.Apply(soon(t), manifest("hog", r.spec)))
	awaitMeasured(soon(t), t, c, r.calm, r.pods.awaitWaiting(t, "hog"))
}

// evict lets the hog that waits cross the threshold, waits until it has ended, and returns how
// many milliseconds after the crossing it got SIGTERM; ok is false if the crossing was over
// before the sampler had a look.
func (r *row) evict(t *testing.T) (took float64, ok bool) {
	t.Helper()
	waiting := r.pods.awaitWaiting(t, "hog")
	must(t, r.watch.Arm(2<<30))
	must(t, stack.Pause(soon(t), settles))
	must(t, r.station.Release(soon(t)))
	l := r.pods.await(t, "hog", "is evicted and has ended", is(waiting.UID, func(l life) bool {
		return ended(l.Pod) && condition(l.Pod, v1.DisruptionTarget) != nil
	}))
	r.victims = append(r.victims, l.Pod.UID)
	at, err := r.station.Stamps()
	must(t, err)
	select {
	case sample := <-r.crossed:
		took = float64(at["term"]-sample.At) / 1e6
		t.Logf("  %3d  %s  crossed -> SIGTERM %6.1f ms  (crossing known to %.1f ms)", len(r.victims), l.Pod.Name, took, float64(sample.Gap)/1e6)
		return took, true
	case <-time.After(time.Second):
		t.Logf("  %3d  %s  crossed too short to be seen", len(r.victims), l.Pod.Name)
		return 0, false
	}
}
