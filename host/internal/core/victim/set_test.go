package victim

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/shared/eviction"
)

// Memory in a volume comes back with the volume, whatever the pod was evicted for; process ids do not wait for it.
func TestTheEndOfAMemoryBackedVolumeIsAwaited(t *testing.T) {
	for s, want := range map[eviction.Signal]bool{
		eviction.MemoryAvailable: true, "evictd.io/memory.headroom": true, eviction.NodeFsAvailable: true, eviction.PIDAvailable: false,
	} {
		v := &Victim{Kill: Kill{Signal: s}, Pod: pods.Pod{Row: eviction.Pod{Volumes: []eviction.Volume{{Kind: "emptyDir", Medium: "Memory"}}}}}
		if got := v.waitsForVolumes(); got != want {
			t.Errorf("a victim of %s waits for its volumes: %v, want %v", s, got, want)
		}
	}
}

// What reclaim may take away depends on what a pod's end was: without the word
// "evicted" a victim's writable layer stays, and the next pod has to go for it.
func TestReclaimLearnsHowPodsEnded(t *testing.T) {
	row := func(uid string) pods.Pod { return pods.Pod{Row: eviction.Pod{UID: uid}} }
	listed := pods.Snapshot{
		Pods:  []pods.Pod{row("runs"), row("dying"), row("victim-runs-again")},
		Ended: []pods.Ended{{UID: "victim", State: eviction.PodActive}, {UID: "deleted", State: eviction.PodDeleted}, {UID: "died", State: eviction.PodActive}},
	}
	s := NewSet(Options{})
	s.victims = append(s.victims, &Victim{Kill: Kill{UID: "dying"}})
	for _, uid := range []string{"victim", "deleted", "victim-runs-again"} {
		s.victims = append(s.victims, &Victim{Kill: Kill{UID: uid}, endedAt: time.Now(), leftover: true})
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

// A node that evicts for days must not remember all of it, nor forget whom it waits for.
func TestAVictimIsKnownAsLongAsItMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := NewSet(Options{Metrics: metrics.New("test", "")}), time.Now()
		s.add(&Victim{Kill: Kill{UID: "dying"}})
		for i := range 2 * maxHistory {
			s.remove(s.add(&Victim{Kill: Kill{UID: fmt.Sprint(i)}}))
		}
		if !s.IsEnding("dying") || !s.EndedSince("0", began) || len(s.History()) != maxHistory || s.History()[maxHistory-1].UID != fmt.Sprint(2*maxHistory-1) {
			t.Errorf("of %d victims %d are shown, the last one %s", len(s.victims), len(s.History()), s.History()[maxHistory-1].UID)
		}
		time.Sleep(endedFor + time.Second)
		s.add(&Victim{Kill: Kill{UID: "new"}})
		if !s.IsEnding("dying") || s.EndedSince("0", began) || len(s.victims) != maxHistory+1 {
			t.Errorf("an hour later %d victims are known, want those that are shown and the one that is dying", len(s.victims))
		}
	})
}

// After a restart a pod that was over a limit of its own was reported as a victim of the
// node, at the time of the restart.
func TestAResumedVictimIsTheOneThatWasDecidedOn(t *testing.T) {
	grace := int64(20)
	for name, limit := range map[string]bool{"of the node": false, "of a limit of its own": true} {
		t.Run(name, func(t *testing.T) {
			pod := pods.Pod{API: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 4}}, HasManifest: true, Row: eviction.Pod{UID: "u", Namespace: "ns", Name: "pod"}, ContainerIDs: []string{"c"}}
			pod.API.Spec.TerminationGracePeriodSeconds = &grace
			v := New(pod, eviction.MemoryAvailable, 10, "message", nil)
			v.Limit, v.EvictedAt = limit, v.EvictedAt.Add(-time.Hour)
			if v.Generation != 4 || v.GraceSeconds != 10 {
				t.Errorf("generation %d, grace period %d s, want 4 and 10", v.Generation, v.GraceSeconds)
			}
			s := NewSet(Options{Metrics: metrics.New("test", ""), Log: slog.New(slog.DiscardHandler), Restored: []Kill{v.Kill}})
			again, _ := s.Resume(pods.Snapshot{Pods: []pods.Pod{pod}}, false, func(eviction.Signal) (known, is bool) { return true, true })
			if diff := cmp.Diff(v.Kill, again[0].Kill); diff != "" || !again[0].Resumed {
				t.Errorf("resumed %v (-want +got):\n%s", again[0].Resumed, diff)
			}
		})
	}
}

// A pod was given up on and chosen again. When the first look at its volumes ended, nothing
// more was expected of it, and its kill was in the journal no more.
func TestTheEndOfAFormerKillIsNotThatOfTheNext(t *testing.T) {
	j := &journal{}
	s := NewSet(Options{Metrics: metrics.New("test", ""), Journal: j, SaveOwed: func([]policy.Owed) error { return nil }, Log: slog.New(slog.DiscardHandler), Moment: func() policy.Moment { return policy.Moment{Time: time.Now()} }})
	pod := pods.Pod{API: &v1.Pod{}, Row: eviction.Pod{UID: "a"}}
	first := s.Start(New(pod, eviction.NodeFsAvailable, 1, "", nil))
	s.remove(first)
	first.cleaning = true
	s.Start(New(pod, eviction.NodeFsAvailable, 1, "", nil))
	s.cleanedUp(first, false)
	if len(j.removed) != 0 {
		t.Error("the kill under way is not in the journal any more")
	}
}

type journal struct{ removed []string }

func (*journal) SaveKill(Kill) error { return nil }

func (j *journal) RemoveKill(uid string) error {
	j.removed = append(j.removed, uid)
	return nil
}
