package kubernetes_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack/crossing"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// leakMiB is less than half of what all pods may have, leakRate what it grows by in a second.
const leakMiB, leakRate = 1200, 200

// A leak has cost so many pods, and the node has been under the threshold for so long.
type leak struct {
	victims int
	under   time.Duration
}

// A Deployment and a DaemonSet whose pods leak, and are made again as soon as they have gone,
// cost no more pods than with the kubelet alone, and the node is not short for longer.
func TestLeakingWorkloadsCostNoMorePodsThanWithTheKubelet(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("its minutes are part of make nightly; the gate has TestNoMoreEvictionsThanByTheKubeletAlone")
	}
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	must(t, hog.WarmUp(soon(t), c.Stack, c.Hog, 2*leakMiB))
	calm, pods := deploy(t, c, "calm", sleeper()), begin(t, c)
	watch, err := crossing.Start(t.Context(), c.Stack, crossing.Pods(c.Stack))
	must(t, err)
	t.Cleanup(func() { _ = watch.Stop() }) // its context has ended, and with it the sampler

	rounds, span := [][]string{{"Deployment"}, {"DaemonSet"}}, 10*time.Minute
	of := map[string][]leak{}
	play := func(by string) {
		for _, kinds := range rounds {
			l := leaks(t, c, pods, watch, by, kinds, span)
			t.Logf("  %-8s %s: %d pods evicted in %v, under the threshold for %.1f s", by, strings.Join(kinds, " and "), l.victims, span, l.under.Seconds())
			of[by] = append(of[by], l)
		}
	}
	play("kubelet")
	p := beside(t, c, account(t, c), map[string]any{"evictionHard": leaveToEvictd(t, c, kubelet)})
	play("evictd")
	for i, l := range of["evictd"] {
		// evictd's first two go before the kubelet has looked for the first time, and either count
		// differs by two or three from run to run: it depends on which pods a look finds grown.
		if k := of["kubelet"][i]; l.victims > k.victims+2+k.victims/5 || l.under > k.under+k.under/3 {
			t.Errorf("%v: %d pods evicted and %v under the threshold, with the kubelet %d and %v", rounds[i], l.victims, l.under, k.victims, k.under)
		}
	}
	unharmed(t, c, calm)
	must(t, p.Stop())
}

// leaks has workloads leak for a while.
func leaks(t *testing.T, c *cluster.Cluster, pods *chronicle, watch *crossing.Watch, by string, kinds []string, span time.Duration) (l leak) {
	t.Helper()
	spec := fmt.Sprintf(`{%s, hostNetwork: true, terminationGracePeriodSeconds: 1, containers: [
      {name: main, image: %s, imagePullPolicy: Never, resources: {requests: {memory: 16Mi}},
       command: [/bin/hog, --mib, "%d", --rate-mib-per-s, "%d", --exit, "143"]}]}`, tolerant, hog.Image, leakMiB, leakRate)
	var names []string
	for _, kind := range kinds {
		name := strings.ToLower(kind + "-by-" + by)
		manifest := deployment(name, spec)
		if kind == "DaemonSet" {
			manifest = strings.NewReplacer("kind: Deployment", "kind: DaemonSet", "  replicas: 1\n", "").Replace(manifest)
		}
		must(t, c.Apply(soon(t), manifest))
		names = append(names, name)
	}
	const step = 100 * time.Millisecond
	for end := time.Now().Add(span); time.Now().Before(end); {
		began := time.Now()
		lowest, err := watch.Lowest(t.Context(), step)
		must(t, err)
		if lowest < 2<<30 {
			l.under += time.Since(began)
		}
	}
	for i, kind := range kinds {
		all, _ := pods.all(names[i])
		for _, life := range all {
			if life.Pod.Status.Reason == "Evicted" {
				l.victims++
			}
		}
		_, err := c.Kubectl(soon(t), "", "delete", strings.ToLower(kind), names[i], "--cascade=foreground", "--wait")
		must(t, err)
	}
	return l
}
