package decision

import (
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

func TestTheFastestFall(t *testing.T) {
	r := &Decision{Before: Before{Signals: []Series{
		{Signal: eviction.PIDAvailable, Unit: 1, Available: []int64{1000, -900}},
		{Signal: eviction.MemoryAvailable, Unit: 2 << 20, Available: []int64{4000, 10, -300, -350, 200}},
	}}}
	for signal, want := range map[eviction.Signal]int64{eviction.MemoryAvailable: 700 << 20, eviction.PIDAvailable: 900, eviction.NodeFsAvailable: 0} {
		if got := r.Fall(signal); got != want {
			t.Errorf("%s: %d, want %d", signal, got, want)
		}
	}
}
