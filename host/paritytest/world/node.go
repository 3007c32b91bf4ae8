package world

import (
	"math/rand/v2"
	"slices"
	"time"
)

// held is memory of an ended pod.
type held struct {
	amount float64
	until  time.Duration
}

// A cleaning is that of an ended victim, whose volume holds MiB of memory until then.
type cleaning struct {
	at    time.Duration
	gone  bool
	holds float64
}

// A write is a change of a node's taint on its way to the API server.
type write struct {
	at    time.Duration
	taint string
}

// A Node is changed by its manager.
type Node struct {
	*Cluster
	machine
	Pods []*Pod

	manager Manager
	// wanted is the taint that the manager wanted last, taint the one that the scheduler sees.
	wanted, taint string
	writes        []write

	held     []held
	forever  float64 // MiB that may still be lost permanently
	cleaning map[string]cleaning
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

// Restarts reports whether the manager is started again.
func (n *Node) Restarts() bool {
	chance := n.restarts
	if len(n.held) > 0 || len(n.cleaning) > 0 {
		chance *= 10
	}
	return rand.New(rand.NewPCG(n.Seed, uint64(n.Now))).IntN(1000) < chance
}

// Evict evicts a pod, and returns the time of its end. Its controller learns of the eviction after
// reported, or at the pod's end if that is negative.
func (n *Node) Evict(uid string, reported time.Duration) (end time.Duration) {
	for _, p := range n.Pods {
		if p.UID == uid && p.Ending < 0 {
			if p.Exceeds(n.Now) {
				n.Limits = min(n.Limits, n.Now)
			} else if n.First < 0 {
				n.First = n.Now
			}
			p.Ending, p.evicted = n.Now+p.ends, n.Now
			p.failed = n.Now + reported
			if reported < 0 || p.kind == statefulSet {
				p.failed = p.Ending
			}
			n.lose(n, p)
			end = p.Ending
		}
	}
	return end
}

// live performs all events that are due.
func (n *Node) live() {
	n.held = slices.DeleteFunc(n.held, func(h held) bool { return h.until <= n.Now })
	n.Pods = slices.DeleteFunc(n.Pods, func(p *Pod) bool {
		if p.Ending < 0 || p.Ending > n.Now {
			return false
		}
		n.end(p)
		return true
	})
	for uid, c := range n.cleaning {
		if c.at <= n.Now {
			delete(n.cleaning, uid)
			n.manager.CleanedUp(n, uid, c.gone)
		}
	}
	for n.Available() <= 0 && n.oom() {
	}
	n.writes = slices.DeleteFunc(n.writes, func(w write) bool {
		if w.at > n.Now {
			return false
		}
		n.taint = w.taint
		return true
	})
}

// look has the manager look, and the node's taint written.
func (n *Node) look() error {
	if n.Available() < Threshold {
		n.Short += Tick
	}
	err := n.manager.Look(n)
	if taint := n.manager.Taint(); taint != n.wanted {
		n.wanted = taint
		if n.Delay >= 0 {
			n.writes = append(n.writes, write{n.Now + n.Delay, taint})
		}
	}
	return err
}

func (n *Node) end(p *Pod) {
	uses := p.Uses(n.Now)
	forever := min(uses*(1-p.part), n.forever)
	n.forever -= forever
	n.held = append(n.held, held{forever, Span}, held{uses - forever, n.Now + p.late})
	c := cleaning{at: n.Now, gone: true}
	if p.volume {
		c = cleaning{n.Now + min(p.late, 30*time.Second), p.late <= 30*time.Second, uses}
	}
	n.cleaning[p.UID] = c
}

// oom kills the largest container, which is restarted on its node. All its memory comes back at once.
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
		n.lose(n, p)
	}
	return true
}

// free returns what the requests on the node leave, as the scheduler scores it: a pod without
// a request counts as one of 200 MiB.
func (n *Node) free() (fits, score float64) {
	fits = capacity - Threshold
	score = fits
	for _, p := range n.Pods {
		fits -= p.request
		if score -= p.request; p.request == 0 {
			score -= 200
		}
	}
	return fits, score
}
