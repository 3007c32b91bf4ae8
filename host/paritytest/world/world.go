// Package world simulates a node whose pods use memory over time, to compare how many pods each
// eviction manager evicts. Memory of a victim comes back late, partly or never, controllers
// recreate pods, and the kernel's OOM killer kills one when no memory is left.
package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// Tick is the time step.
	Tick = 250 * time.Millisecond
	// Span is the duration of a simulation.
	Span = 15 * time.Minute
	// Threshold is the hard threshold of memory.available, in MiB.
	Threshold = 1024
	// capacity is the memory of the node in MiB.
	capacity = 8192
)

// A workload has one pod at a time.
type workload struct {
	name string
	// A pod uses base MiB when it starts and grows to most, by rate MiB per second.
	base, most, rate float64
	// again is the time until its controller creates the next pod. Negative without one.
	again time.Duration
	// ends is the time that a victim takes to terminate. late after that the fraction part of its
	// memory comes back; the rest never does.
	ends, late time.Duration
	part       float64
	// volume: what comes back late is in a memory-backed volume.
	volume bool
}

// A World is the same for each manager under test.
type World struct {
	Seed      uint64
	workloads []workload
	// A process outside of all pods grows by rate MiB per second to daemon MiB.
	daemon, rate float64
}

// New returns the world for a seed.
func New(seed uint64) *World {
	r := rand.New(rand.NewPCG(seed, 29))
	between := func(low, high float64) float64 { return low + r.Float64()*(high-low) }
	seconds := func(low, high float64) time.Duration {
		return time.Duration(between(low, high) * float64(time.Second)).Round(Tick)
	}
	w := &World{Seed: seed, daemon: capacity * between(0.1, 0.3)}
	late, part := seconds(0, 60), 1.0
	switch r.IntN(6) {
	case 0:
		late = 0
	case 1:
		part = between(0, 0.8)
	case 2:
		part = 0
	}
	if r.IntN(4) == 0 { // it holds the memory
		w.daemon, w.rate = capacity*between(0.3, 0.9), between(1, 200)
	}
	for i := range 3 + r.IntN(8) {
		l := workload{
			name: fmt.Sprintf("w%d", i), base: between(10, 200), again: -1,
			ends: seconds(0, 2), late: late, part: part, volume: r.IntN(3) == 0,
		}
		l.most = l.base
		if r.IntN(3) == 0 {
			l.most, l.rate = between(500, 8000), between(1, 400)
		}
		if r.IntN(3) > 0 {
			l.again = seconds(0, 10)
		}
		w.workloads = append(w.workloads, l)
	}
	return w
}

func (w *World) String() string { return fmt.Sprintf("world %d: %+v", w.Seed, *w) }

// A Pod is a pod of one simulated node.
type Pod struct {
	*workload
	UID string
	// born is the last start of its container, from which on it grows; in the future during a
	// restart backoff. restarts counts them.
	born     time.Duration
	restarts int
	// made is when its controller made it.
	made time.Duration
	// Ending is the time of its end, negative unless it is a victim.
	Ending time.Duration
}

// Owner returns the uid of the pod's controller, empty if it has none.
func (p *Pod) Owner() string {
	if p.again < 0 {
		return ""
	}
	return p.name
}

// Uses returns the working set in MiB.
func (p *Pod) Uses(now time.Duration) float64 {
	if now < p.born {
		return 0
	}
	return min(p.most, p.base+p.rate*(now-p.born).Seconds())
}

// held is memory of an ended pod.
type held struct {
	amount float64
	until  time.Duration
}

// A Manager is called with a node each tick and may evict pods of it.
type Manager interface {
	Look(n *Node) error
	// CleanedUp is called when a victim has ended and its volumes are gone, or, with gone false,
	// when that takes more than 30 s.
	CleanedUp(n *Node, uid string, gone bool)
}

// A Node is a World at a time, changed by a manager.
type Node struct {
	World
	Now  time.Duration
	Pods []*Pod
	// First is the time of the first eviction, negative if there was none.
	First time.Duration
	// Lost holds the times at which a pod was evicted or OOM-killed.
	Lost []time.Duration
	// Kills counts OOM kills. Short is how long the threshold was met.
	Kills int
	Short time.Duration

	held     []held
	forever  float64 // MiB that may still be lost permanently
	made     int
	due      map[*workload]time.Duration
	cleaning map[string]cleaning
}

type cleaning struct {
	at   time.Duration
	gone bool
}

// Play runs w's node with m for Span.
func Play(w *World, m Manager) (*Node, error) {
	n := &Node{World: *w, First: -1, forever: 0.3 * capacity, due: map[*workload]time.Duration{}, cleaning: map[string]cleaning{}}
	n.workloads = slices.Clone(w.workloads)
	for i := range n.workloads {
		n.make(&n.workloads[i])
	}
	for ; n.Now < Span; n.Now += Tick {
		n.live(m)
		if n.Available() < Threshold {
			n.Short += Tick
		}
		if err := m.Look(n); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *Node) make(w *workload) {
	n.made++
	n.Pods = append(n.Pods, &Pod{workload: w, UID: fmt.Sprintf("%s-%d", w.name, n.made), born: n.Now, made: n.Now, Ending: -1})
}

// Available returns memory.available in MiB.
func (n *Node) Available() float64 {
	left := capacity - min(n.daemon, capacity*0.1+n.rate*n.Now.Seconds())
	if n.rate == 0 {
		left = capacity - n.daemon
	}
	for _, p := range n.Pods {
		left -= p.Uses(n.Now)
	}
	for _, h := range n.held {
		left -= h.amount
	}
	return left
}

// Evict evicts a pod, and returns the time of its end.
func (n *Node) Evict(uid string) (end time.Duration) {
	for _, p := range n.Pods {
		if p.UID == uid && p.Ending < 0 {
			p.Ending = n.Now + p.ends
			n.Lost = append(n.Lost, n.Now)
			if n.First < 0 {
				n.First = n.Now
			}
			end = p.Ending
		}
	}
	return end
}

// live performs all events that are due.
func (n *Node) live(m Manager) {
	n.held = slices.DeleteFunc(n.held, func(h held) bool { return h.until <= n.Now })
	n.Pods = slices.DeleteFunc(n.Pods, func(p *Pod) bool {
		if p.Ending < 0 || p.Ending > n.Now {
			return false
		}
		n.end(p)
		return true
	})
	for i := range n.workloads {
		if w := &n.workloads[i]; n.due[w] > 0 && n.due[w] <= n.Now {
			delete(n.due, w)
			n.make(w)
		}
	}
	for uid, c := range n.cleaning {
		if c.at <= n.Now {
			delete(n.cleaning, uid)
			m.CleanedUp(n, uid, c.gone)
		}
	}
	for n.Available() <= 0 && n.oom() {
	}
}

func (n *Node) end(p *Pod) {
	uses := p.Uses(n.Now)
	forever := min(uses*(1-p.part), n.forever)
	n.forever -= forever
	n.held = append(n.held, held{forever, Span}, held{uses - forever, n.Now + p.late})
	c := cleaning{n.Now, true}
	if p.volume {
		c = cleaning{n.Now + min(p.late, 30*time.Second), p.late <= 30*time.Second}
	}
	n.cleaning[p.UID] = c
	if p.again >= 0 {
		n.due[p.workload] = n.Now + max(p.again, Tick)
	}
}

// oom kills the largest container, which is restarted.
func (n *Node) oom() bool {
	if len(n.Pods) == 0 {
		return false
	}
	p := slices.MaxFunc(n.Pods, func(a, b *Pod) int { return int(a.Uses(n.Now) - b.Uses(n.Now)) })
	if p.Uses(n.Now) == 0 {
		return false
	}
	p.born = n.Now + min(10*time.Second<<p.restarts, 5*time.Minute) // CrashLoopBackOff
	p.restarts++
	n.Kills++
	if p.Ending < 0 {
		n.Lost = append(n.Lost, n.Now)
	}
	return true
}

// Worst returns the largest number of pods lost within ten minutes.
func (n *Node) Worst() int {
	worst := 0
	for i, from := range n.Lost {
		j, _ := slices.BinarySearch(n.Lost[i:], from+10*time.Minute)
		worst = max(worst, j)
	}
	return worst
}
