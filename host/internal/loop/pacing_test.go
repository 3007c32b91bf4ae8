package loop

import (
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/rundir"
)

// With the kubelet's pacing each wake evicted the dying pod again: 33 kills, journal
// entries and events of one pod in 0.7 s.
func TestTheKubeletsPacingWaitsForTheKillAndTheCleanUp(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*node)
		want []string
	}{
		"the pod ends": {func(n *node) { n.dies["uid-big"] = 700 * time.Millisecond }, []string{"0s kill big grace 1", "1.7s kill small grace 1"}},
		"its volumes stay for a while": {func(n *node) {
			n.volumes = map[string]bool{"uid-big": true}
			time.AfterFunc(4500*time.Millisecond, func() { n.mu.Lock(); defer n.mu.Unlock(); n.volumes = nil })
		}, []string{"0s kill big grace 1", "5s kill small grace 1"}},
		"the pod stays": {func(n *node) { n.killErr = errBroken }, []string{"0s kill big grace 1", "30s kill big grace 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				s := settings(t, hard("4Gi"))
				s.Pacing = PacingKubelet
				n.run(s, rundir.State{})
				n.settle()
				c.set(n)
				n.set(gi)
				for range 3100 {
					n.wake() // the kernel keeps waking
					n.after(10 * time.Millisecond)
				}
				wantKills(t, n, c.want...)
				if got := n.count("journal big"); got != n.count("kill big") {
					t.Errorf("%d entries in the journal, want one for each kill: %q", got, n.story())
				}
			})
		})
	}
}

// Observations wait as well, and wakes join the next pass.
func TestTheKubeletsPacingMakesOnePassAtATime(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.dies["uid-big"] = 900 * time.Millisecond
		s := settings(t, hard("1Gi"))
		s.Pacing = PacingKubelet
		n.run(s, rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(time.Millisecond)
		before := n.count("observe")
		for range 18 {
			n.wake()
			n.after(100 * time.Millisecond)
		}
		if got := n.count("observe") - before; got != 0 {
			t.Errorf("%d observations while the victim was ending, want none", got)
		}
		n.after(200 * time.Millisecond)
		if got := n.count("observe") - before; got == 0 || got > 2 {
			t.Errorf("%d observations after it was cleaned up, want one or two", got)
		}
	})
}
