package loop

import (
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// A watchdog that a timer feeds sees a process, not whether it decides anything.
func TestALoopThatIsStuckIsNotAlive(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		turns := make(chan struct{}, 1000)
		n.alive, n.aliveEvery = func() { turns <- struct{}{} }, 20*time.Second
		stuck, free := false, make(chan struct{})
		n.conditions = func([]eviction.Condition) {
			if stuck {
				<-free
			}
		}
		s := settings(t, hard("1Gi"))
		s.MonitoringInterval = time.Hour
		n.run(s, rundir.State{})
		n.settle()

		drained := func() (n int) {
			for len(turns) > 0 {
				<-turns
				n++
			}
			return n
		}
		drained()
		n.after(10 * time.Minute)
		if n := drained(); n < 30 || n > 31 {
			t.Errorf("%d turns in ten quiet minutes, want one each 20s though a pass is far away", n)
		}
		stuck = true
		n.wake()
		n.after(time.Second)
		drained()
		n.after(10 * time.Minute)
		if n := drained(); n != 0 {
			t.Errorf("%d turns of a loop that is stuck in a pass", n)
		}
		stuck = false
		close(free)
		n.after(time.Minute)
		if drained() == 0 {
			t.Error("no turn after the pass went on")
		}
	})
}
