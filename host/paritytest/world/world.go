// Package world simulates a cluster whose pods use memory over time, to compare how many pods each
// eviction manager evicts. Memory of a victim comes back late, partly or never, controllers make
// the next pods, the scheduler places them on a node without a taint, and the kernel's OOM killer
// kills one when no memory is left.
package world

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// Tick is the time step.
	Tick = 250 * time.Millisecond
	// Span is the duration of a simulation.
	Span = 15 * time.Minute
	// Threshold is the hard threshold of memory.available, in MiB.
	Threshold = 1024
	// capacity is the memory of a node in MiB.
	capacity = 8192
)

// A World is the same for each manager under test.
type World struct {
	Seed uint64
	// Delay is the time from a change of a node's condition to that of its taint. Negative: the API
	// server refuses the write.
	Delay     time.Duration
	nodes     []machine
	workloads []workload
	// starts is the time that a pod takes to start on its node.
	starts time.Duration
	// restarts is the chance in a thousand that evictd is started again in a tick, ten times that while memory of a victim is
	// on its way.
	restarts int
}

// A machine has a process outside of all pods that grows by rate MiB per second to daemon MiB.
type machine struct{ daemon, rate float64 }

// New returns the world for a seed.
func New(seed uint64) *World {
	r := rand.New(rand.NewPCG(seed, 29))
	between := func(low, high float64) float64 { return low + r.Float64()*(high-low) }
	seconds := func(low, high float64) time.Duration {
		return time.Duration(between(low, high) * float64(time.Second)).Round(Tick)
	}
	w := &World{Seed: seed, starts: seconds(0.3, 1.5), Delay: seconds(0, 1)}
	switch r.IntN(10) {
	case 0:
		w.Delay = -1
	case 1, 2, 3:
		w.Delay = seconds(1, 10)
	}
	for range 1 + r.IntN(2) {
		m := machine{daemon: capacity * between(0.1, 0.3)}
		if r.IntN(4) == 0 { // it holds the memory
			m = machine{capacity * between(0.3, 0.9), between(1, 200)}
		}
		w.nodes = append(w.nodes, m)
	}
	late, part := seconds(0, 60), 1.0
	switch r.IntN(6) {
	case 0:
		late = 0
	case 1:
		part = between(0, 0.8)
	case 2:
		part = 0
	}
	for i := range 3 + r.IntN(8) {
		l := workload{
			name: fmt.Sprintf("w%d", i), kind: kind(r.IntN(int(kinds))), replicas: 1, base: between(10, 400),
			tolerates: r.IntN(8) == 0, pinned: r.IntN(30) == 0,
			ends: seconds(0, 2), late: late, part: part, volume: r.IntN(3) == 0,
		}
		l.most = l.base
		if r.IntN(3) == 0 {
			l.most, l.rate = between(500, 8000), between(1, 400)
		}
		if r.IntN(2) == 0 {
			l.request = between(10, 500)
		}
		if l.kind != daemonSet {
			l.replicas += r.IntN(3)
		}
		w.workloads = append(w.workloads, l)
	}
	if r.IntN(4) == 0 {
		w.restarts = 1 + r.IntN(20)
	}
	for i := range w.workloads {
		// Those that come back go again at the next look at limits, whose times differ.
		if l := &w.workloads[i]; l.kind == bare && r.IntN(2) == 0 {
			l.exceeds, l.takes = seconds(1, 300), between(0, 3000)
		}
	}
	return w
}

func (w *World) String() string { return fmt.Sprintf("world %d: %+v", w.Seed, *w) }
