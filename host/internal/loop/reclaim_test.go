package loop

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/shared/eviction"
)

// leftovers is a pod source.
type leftovers pods.Snapshot

// Active implements Pods.
func (s *leftovers) Active(context.Context) (pods.Snapshot, error) { return pods.Snapshot(*s), nil }

// What reclaim may take away depends on what a pod's end was: without the word
// "evicted" a victim's writable layer stays, and the next pod has to go for it.
func TestReclaimIsToldHowPodsEnded(t *testing.T) {
	row := func(uid string) pods.Pod { return pods.Pod{Row: eviction.Pod{UID: uid}} }
	source := &leftovers{
		Pods:     []pods.Pod{row("runs"), row("dying"), row("victim-runs-again")},
		Ended:    []pods.Ended{{UID: "victim", State: eviction.PodActive}, {UID: "deleted", State: eviction.PodDeleted}, {UID: "died", State: eviction.PodActive}},
		Complete: true,
	}
	l := New(Options{Pods: source})
	l.flights["dying"] = &flight{}
	for _, uid := range []string{"victim", "deleted", "victim-runs-again"} {
		l.evicted[uid] = true
	}
	request := func() eviction.ReclaimRequest {
		p := &pass{}
		defer func() { p.listing.drop() }()
		return l.reclaimRequest(t.Context(), p, &cleaning{groups: [][]step{{{name: "container-gc", by: &supervisor.Instance{}}}}})
	}
	want := []eviction.PodPhase{
		{UID: "runs", State: eviction.PodActive},
		{UID: "dying", State: eviction.PodEvicted},
		{UID: "victim-runs-again", State: eviction.PodActive},
		{UID: "victim", State: eviction.PodEvicted},
		{UID: "deleted", State: eviction.PodDeleted},
		{UID: "died", State: eviction.PodActive},
	}
	got := request()
	if diff := cmp.Diff(want, got.Pods); diff != "" || !got.AllSourcesReady {
		t.Errorf("complete %v, pods (-want +got):\n%s", got.AllSourcesReady, diff)
	}
	source.Pods, source.Ended = nil, append(source.Ended[:1], pods.Ended{UID: "victim-runs-again", State: eviction.PodActive})
	want = []eviction.PodPhase{{UID: "victim", State: eviction.PodEvicted}, {UID: "victim-runs-again", State: eviction.PodActive}}
	if diff := cmp.Diff(want, request().Pods); diff != "" {
		t.Errorf("a victim that was started again and ended by itself is no victim (-want +got):\n%s", diff)
	}
}
