package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// The hog's memory came back 3 s after its end: six innocent pods went in 143 ms. A volume in
// memory is waited for until it is gone, as by the kubelet.
func TestMemoryThatComesBackLateCostsNoOtherPod(t *testing.T) {
	for name, c := range map[string]struct {
		late   time.Duration
		volume bool
		want   int
	}{
		"after 3 s": {3 * time.Second, false, 1}, "after 9 s": {9 * time.Second, false, 1},
		"after 25 s": {25 * time.Second, false, 3}, "never": {time.Hour, false, 6}, "with its volume, after 25 s": {25 * time.Second, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.pods, n.volumes = nil, map[string]bool{"uid-hog": c.volume}
				n.addPod("hog", 500*mi)
				n.pods[0].Row.Volumes = []eviction.Volume{{Name: "shm", Kind: "emptyDir", Medium: "Memory"}}
				for i := range 6 {
					n.addPod(fmt.Sprintf("innocent-%d", i), 20*mi)
				}
				n.run(settings(t, hard("1Gi")), rundir.State{})
				n.settle()
				n.mu.Lock()
				n.observe = func() (eviction.ObserveReply, error) {
					available := gi - 50*mi + n.released(n.usage, c.late)
					n.volumes["uid-hog"] = c.volume && available < gi
					return eviction.ObserveReply{Observations: []eviction.Observation{{
						Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: available, Capacity: 8 * gi, Time: time.Now(),
					}}}, nil
				}
				n.mu.Unlock()
				for range 595 {
					n.wake()
					n.after(100 * time.Millisecond)
				}
				if got := n.kills(); len(got) != c.want {
					t.Errorf("%q in a minute, want %d", got, c.want)
				}
				if events := n.count("node event " + policy.EventReasonPace); (events > 0) == c.volume {
					t.Errorf("%d events about the pace, want some: %v", events, !c.volume)
				}
			})
		})
	}
}

// A daemon outside of all pods holds the memory: ten innocent pods went in 150 ms. Each
// brings what it used.
func TestWhenNoPodHoldsItTheKubeletsPaceHolds(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.pods = nil
		for i := range 10 {
			n.addPod(fmt.Sprintf("innocent-%d", i), 20*mi)
		}
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		for range 350 {
			n.wake()
			n.after(100 * time.Millisecond)
		}
		if got := n.kills(); len(got) != 4 || !strings.HasPrefix(got[0], "0s ") || !strings.HasPrefix(got[1], "10") || !strings.HasPrefix(got[3], "30") {
			t.Errorf("%q in 35 s, want one in 10 s", got)
		}
		if w := n.loop.Snapshot().Waiting; len(w) != 1 || w[0].For != policy.WaitForPace || w[0].Reason != policy.NoHolder {
			t.Errorf("the status has %+v, want that no pod holds it", w)
		}
		if !strings.Contains(n.log.String(), `holder="process 7 \"db\" with 6Gi"`) || !strings.Contains(n.log.String(), "no pod holds it") || n.count("node event "+policy.EventReasonPace) != 1 {
			t.Errorf("want it in the log and one event: %q", n.story())
		}
	})
}

// A controller makes each pod again at once, and it takes all memory within half a second:
// 34 went in 20 s.
func TestTheReplacementOfAVictimGoesAtTheKubeletsPace(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.pods = nil
		n.addPod("bystander", 300*mi)
		made := 0
		leak := func() {
			made++
			n.addPod(fmt.Sprintf("leak-%d", made), 4*gi)
			n.pods[len(n.pods)-1].API.OwnerReferences = []metav1.OwnerReference{{UID: types.UID("uid-leak"), Controller: new(true)}}
			n.set(gi - 100*mi)
		}
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		leak()
		for range 120 {
			n.wake()
			n.after(500 * time.Millisecond)
			if !n.running[fmt.Sprintf("uid-leak-%d", made)] {
				leak()
			}
		}
		got := n.kills()
		if len(got) < 6 || len(got) > 7 || strings.Contains(strings.Join(got, ""), "bystander") {
			t.Errorf("%q in a minute, want one of leak in 10 s", got)
		}
	})
}

// The conditions of a pass are handed on before the first kill for them.
func TestConditionsAreHandedOnBeforeTheKill(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.conditions = func(c []eviction.Condition) {
			if len(c) > 0 {
				n.locked("conditions %v", c)
			}
		}
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(time.Second)
		story := n.story()
		at := slices.IndexFunc(story, func(s string) bool { return strings.HasSuffix(s, "conditions [MemoryPressure]") })
		kill := slices.IndexFunc(story, func(s string) bool { return strings.Contains(s, " kill ") })
		if at < 0 || kill < 0 || at > kill {
			t.Errorf("%q, want the condition before the kill", story)
		}
	})
}
