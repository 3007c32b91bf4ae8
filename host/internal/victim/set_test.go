package victim

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/eviction"
)

// What reclaim may take away depends on what a pod's end was: without the word
// "evicted" a victim's writable layer stays, and the next pod has to go for it.
func TestReclaimIsToldHowPodsEnded(t *testing.T) {
	row := func(uid string) pods.Pod { return pods.Pod{Row: eviction.Pod{UID: uid}} }
	listed := pods.Snapshot{
		Pods:  []pods.Pod{row("runs"), row("dying"), row("victim-runs-again")},
		Ended: []pods.Ended{{UID: "victim", State: eviction.PodActive}, {UID: "deleted", State: eviction.PodDeleted}, {UID: "died", State: eviction.PodActive}},
	}
	s := NewSet(Options{})
	s.ending["dying"] = &Victim{}
	for _, uid := range []string{"victim", "deleted", "victim-runs-again"} {
		s.leftover[uid] = true
	}
	want := []eviction.PodPhase{
		{UID: "runs", State: eviction.PodActive},
		{UID: "dying", State: eviction.PodEvicted},
		{UID: "victim-runs-again", State: eviction.PodActive},
		{UID: "victim", State: eviction.PodEvicted},
		{UID: "deleted", State: eviction.PodDeleted},
		{UID: "died", State: eviction.PodActive},
	}
	if diff := cmp.Diff(want, s.Phases(listed)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	listed.Pods, listed.Ended = nil, append(listed.Ended[:1], pods.Ended{UID: "victim-runs-again", State: eviction.PodActive})
	want = []eviction.PodPhase{{UID: "victim", State: eviction.PodEvicted}, {UID: "victim-runs-again", State: eviction.PodActive}}
	if diff := cmp.Diff(want, s.Phases(listed)); diff != "" {
		t.Errorf("a victim that was started again and ended by itself is no victim (-want +got):\n%s", diff)
	}
}
