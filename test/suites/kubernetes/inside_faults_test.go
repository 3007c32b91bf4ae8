package kubernetes_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A kubelet with evictd inside that is killed in the middle of an eviction, and started again, has one
// victim in the end: the hog, which it was about to end.
func TestInsideAKubeletKilledInTheMiddleOfAKill(t *testing.T) {
	requireNightly(t)
	keys := narrow(t)
	keys["kernelMemcgNotification"] = true
	c := start(t, cluster.Options{Kubelet: keys})
	r := newRow(t, c, "--stubborn", "--term-delay-ms", "60000")
	run(t, c, inside(t, c), keys)
	other, holds := newHog(t, c, "other", 200)
	bystander := deploy(t, c, "other", other)
	must(t, holds.Release(soon(t)))
	for round := range number(t, "EVICTD_RUNS", 3) {
		r.add(t, c, barePod)
		hog := r.pods.awaitWaiting(t, "hog")
		before, err := r.station.Stamps()
		must(t, err)
		must(t, r.station.Release(soon(t)))
		for ctx, now := soon(t), before; now["term"] == before["term"]; {
			must(t, stack.Pause(ctx, time.Millisecond))
			now, err = r.station.Stamps()
			must(t, err)
		}
		must(t, c.KillPart(soon(t), "kubelet"))
		must(t, c.StartPart(soon(t), "kubelet"))
		l := r.pods.await(t, "hog", "has ended", is(hog.UID, func(l life) bool { return ended(l.Pod) }))
		r.victims = append(r.victims, l.Pod.UID)
		t.Logf("  round %d: %s %s, %q", round+1, l.Pod.Status.Phase, l.Pod.Status.Reason, l.Pod.Status.Message)
		disrupted(t, l.Pod)
		onlyEvicted(t, r.evictedBy(t, c), r.victims)
		_, err = c.Kubectl(soon(t), "", "delete", "pod", "hog", "--wait")
		must(t, err)
	}
	unharmed(t, c, r.calm)
	unharmed(t, c, bystander)
	t.Logf("  evictd decided on %v", decisions(t, c))
}

// onlyEvicted fails the test if others than the victims were evicted.
func onlyEvicted(t *testing.T, by map[types.UID]map[string]bool, victims []types.UID) {
	t.Helper()
	if got := slices.Collect(maps.Keys(by)); len(got) != len(victims) || slices.ContainsFunc(got, func(uid types.UID) bool { return !slices.Contains(victims, uid) }) {
		t.Errorf("evicted are %v, want %v", by, victims)
	}
}

// A vendor's ranker in the plugin directory changes the victim: without it the one goes that uses most
// above its request, with it the pod that is oldest.
func TestInsideAKubeletAVendorsRankerChangesTheVictim(t *testing.T) {
	requireNightly(t)
	keys := narrow(t)
	keys["kernelMemcgNotification"] = true
	c := start(t, cluster.Options{Kubelet: keys})
	pods := begin(t, c)
	for _, story := range []struct {
		name, victim string
		plugins      []string
	}{
		{name: "without", victim: "young"},
		{name: "with", victim: "old", plugins: []string{"../../../bin/oldest"}},
	} {
		run(t, c, inside(t, c, story.plugins...), keys)
		// Either of them is enough, and the old one does not exceed what it asks for.
		old, holds := newHog(t, c, "old-"+story.name, 700)
		must(t, c.Apply(soon(t), barePod("old-"+story.name, strings.ReplaceAll(old, "16Mi", "800Mi"))))
		awaitYounger(t, pods.awaitWaiting(t, "old-"+story.name))
		must(t, holds.Release(soon(t)))
		_, err := holds.WaitStamp(soon(t), "full")
		must(t, err)
		young, station := newHog(t, c, "young-"+story.name, 700)
		must(t, c.Apply(soon(t), barePod("young-"+story.name, young)))
		awaitMeasured(soon(t), t, c, pods.awaitWaiting(t, "young-"+story.name), pods.awaitWaiting(t, "old-"+story.name))
		must(t, station.Release(soon(t)))
		victim := pods.await(t, story.victim+"-"+story.name, "is evicted and has ended", func(l life) bool { return endedWithReason(l.Pod) }).Pod
		evicted(t, victim)
		t.Logf("  %s the vendor's ranker %s goes: %s", story.name, victim.Name, victim.Status.Message)
		spared := map[string]string{"young": "old", "old": "young"}[story.victim] + "-" + story.name
		unharmed(t, c, pods.awaitWaiting(t, spared))
		_, err = c.Kubectl(soon(t), "", "delete", "pod", "--wait", victim.Name, spared)
		must(t, err)
	}
	if got, want := fmt.Sprint(decisions(t, c)), "[default/young-without default/old-with]"; got != want {
		t.Errorf("evictd evicted %s, want %s", got, want)
	}
}
