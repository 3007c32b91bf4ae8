package observe

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
)

// A wake between the observation that found a shortage and the choice gave a slow plugin its time once
// more: a pod went a second later.
func TestPassesThatAdjoinShareOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &registry.Instance{Name: "slow"}
		var last *Budget
		pass := func(takes time.Duration) (left time.Duration) {
			last = NewBudget(last)
			left, end := last.Wait(slow)
			time.Sleep(takes)
			end()
			return left
		}
		for i, want := range []time.Duration{time.Second, 100 * time.Millisecond, 50 * time.Millisecond, 0} {
			takes := []time.Duration{900 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond, 0}[i]
			if left := pass(takes); left != want {
				t.Errorf("pass %d: %v left, want %v", i+1, left, want)
			}
		}
		time.Sleep(adjoining)
		if left := pass(0); left != time.Second {
			t.Errorf("later: %v left, want all", left)
		}
		for range 100 { // as passes on a calm node do that adjoin
			pass(time.Millisecond)
			time.Sleep(100 * time.Millisecond)
		}
		if left := pass(0); left < time.Second-40*time.Millisecond {
			t.Errorf("after many quick passes: %v left", left)
		}
	})
}
