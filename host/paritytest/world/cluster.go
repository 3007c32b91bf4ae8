package world

import (
	"fmt"
	"slices"
	"time"
)

// kubeletTaint and evictdTaint are the keys of the taints that the managers have written.
const (
	kubeletTaint = "node.kubernetes.io/memory-pressure"
	evictdTaint  = "evictd.io/memory-pressure"
)

// A Manager is called with its node each tick and may evict pods of it.
type Manager interface {
	Look(n *Node) error
	// Taint returns the key of the taint that its node should have, empty without pressure.
	Taint() string
	// CleanedUp is called when a victim has ended and its volumes are gone, or, with gone false,
	// when that takes more than 30 s.
	CleanedUp(n *Node, uid string, gone bool)
}

// A Cluster is a World at a time: nodes, and the controllers and the scheduler of their pods.
type Cluster struct {
	*World
	Now   time.Duration
	Nodes []*Node
	// First is the time of the first eviction for memory, negative if there was none, Limits that of the first one for a limit.
	First, Limits time.Duration
	// Lost holds the times at which a pod was evicted or OOM-killed.
	Lost []time.Duration
	// Kills counts OOM kills. Short is how long the threshold was met, of all nodes.
	Kills int
	Short time.Duration
	// Refused holds the times at which a kubelet under pressure refused a pod that came to its node.
	// In the API that pod is Failed and Evicted like a victim. Lost does not have it.
	Refused []time.Duration
	// Log is called with what happens, if it is set.
	Log func(string, ...any)

	// waiting are the pods that no node has yet; made may be in the future.
	waiting  []*Pod
	victims  []*Pod // that their controllers have not learned of yet
	failures map[*workload]int
	made     int
}

// Play runs w with managers from next, which is called with the number of each node, for Span.
func Play(w *World, next func(node int) (Manager, error), log func(string, ...any)) (*Cluster, error) {
	c := &Cluster{World: w, First: -1, Limits: Span, Log: log, failures: map[*workload]int{}}
	for i, m := range w.nodes {
		manager, err := next(i)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, &Node{Cluster: c, machine: m, manager: manager, forever: 0.3 * capacity, cleaning: map[string]cleaning{}})
	}
	for i := range w.workloads {
		l := &w.workloads[i]
		for range l.replicas {
			if l.kind != daemonSet {
				c.make(l, nil, 0)
				continue
			}
			for _, n := range c.Nodes {
				c.make(l, n, 0)
			}
		}
	}
	for ; c.Now < Span; c.Now += Tick {
		for _, n := range c.Nodes {
			n.live()
		}
		c.replace()
		c.waiting = slices.DeleteFunc(c.waiting, c.place)
		for _, n := range c.Nodes {
			if err := n.look(); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

func (c *Cluster) make(w *workload, home *Node, at time.Duration) {
	c.made++
	c.waiting = append(c.waiting, &Pod{workload: w, UID: fmt.Sprintf("%s-%d", w.name, c.made), made: at, Ending: -1, home: home})
}

// replace makes the next pods of victims that have failed.
func (c *Cluster) replace() {
	c.victims = slices.DeleteFunc(c.victims, func(p *Pod) bool {
		if p.failed > c.Now {
			return false
		}
		c.failures[p.workload]++
		if after, ok := p.again(c.failures[p.workload]); ok {
			c.make(p.workload, p.home, c.Now+after)
		}
		return true
	})
}

// place schedules a pod and reports whether a node has it now.
func (c *Cluster) place(p *Pod) bool {
	if p.made > c.Now {
		return false
	}
	var best *Node
	most := 0.0
	for i, n := range c.Nodes {
		fits, score := n.free()
		switch {
		case p.home != nil && p.home != n, p.pinned && p.home == nil && i > 0:
		case !p.accepts(n.taint), p.request > fits:
		case best == nil || score > most:
			best, most = n, score
		}
	}
	if best != nil && p.refused(best.wanted) {
		c.Refused = append(c.Refused, c.Now)
		p.made = c.Now + c.starts // of the next pod, made at once
		return false
	}
	if best == nil {
		if p.home != nil {
			p.made = c.Now + Tick // a DaemonSet's controller makes none that cannot run
		}
		return false
	}
	p.born = c.Now + c.starts
	best.Pods = append(best.Pods, p)
	c.logf("%s of a %v comes to node %d", p.UID, p.kind, slices.Index(c.Nodes, best))
	return true
}

// lose records the loss of a pod of n.
func (c *Cluster) lose(n *Node, p *Pod) {
	c.Lost = append(c.Lost, c.Now)
	if p.Ending >= 0 {
		c.victims = append(c.victims, p)
	}
	c.logf("%s lost on node %d, evicted: %t, uses %.0f, available %.0f", p.UID, slices.Index(c.Nodes, n), p.Ending >= 0, p.Uses(c.Now), n.Available())
}

func (c *Cluster) logf(format string, args ...any) {
	if c.Log != nil {
		c.Log("%8v "+format, append([]any{c.Now}, args...)...)
	}
}

// Worst returns the largest number of pods lost within ten minutes.
func (c *Cluster) Worst() int { return worst(c.Lost) }

// WorstSeen is like Worst, with the pods that were refused.
func (c *Cluster) WorstSeen() int {
	return worst(slices.Sorted(slices.Values(slices.Concat(c.Lost, c.Refused))))
}

func worst(times []time.Duration) int {
	most := 0
	for i, from := range times {
		j, _ := slices.BinarySearch(times[i:], from+10*time.Minute)
		most = max(most, j)
	}
	return most
}
