package loop

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/choose"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// On a slow machine a pod went by priority alone because nobody had come up yet to
// measure it.
func TestNobodyGoesUnmeasuredBeforeTheFirstStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.addPod("first", gi)
		n.addPod("big", 2*gi)
		n.set(gi / 2)
		n.measure, n.starting = eviction.ErrUnavailable, true
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.after(choose.FirstStarts - time.Second)
		if got := n.count("kill"); got != 0 {
			t.Fatalf("%d kills before anybody could measure: %v", got, n.story())
		}
		n.mu.Lock()
		n.measure, n.starting = nil, false
		n.mu.Unlock()
		n.changes()
		if n.count("kill big") != 1 {
			t.Errorf("want big killed as soon as it is known: %v", n.story())
		}
	})
}

func TestAFirstStartIsNotWaitedForForEver(t *testing.T) {
	for _, starting := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.addPod("first", gi)
			n.set(gi / 2)
			n.measure, n.starting = eviction.ErrUnavailable, starting
			n.run(settings(t, hard("1Gi")), rundir.State{})
			if !starting {
				n.after(time.Second)
			} else {
				n.after(choose.FirstStarts + 11*time.Second) // and the interval
			}
			if n.count("kill first") != 1 {
				t.Errorf("starting %v: want it killed without a figure: %v", starting, n.story())
			}
		})
	}
}
