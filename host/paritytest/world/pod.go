package world

import "time"

// A Pod is a pod of one simulated cluster.
type Pod struct {
	*workload
	UID string
	// made is when its controller makes it.
	made time.Duration
	// born is the last start of its container, from which on it grows; in the future during a start
	// and a restart backoff. restarts counts the latter.
	born     time.Duration
	restarts int
	// Ending is the time of its end, failed the time at which its controller learns of it, both
	// negative unless it is a victim.
	Ending, failed time.Duration
	evicted        time.Duration // when, of a victim
	// home is the node of a DaemonSet's pod.
	home *Node
}

// Owner returns the uid of the pod's controller, empty if it has none.
func (p *Pod) Owner() string {
	if p.kind == bare {
		return ""
	}
	return p.name
}

// Uses returns the working set in MiB.
func (p *Pod) Uses(now time.Duration) float64 {
	if now < p.born {
		return 0
	}
	uses := min(p.most, p.base+p.rate*(now-p.born).Seconds())
	if p.Ending >= 0 {
		uses += p.takes * (min(now, p.Ending) - p.evicted).Seconds()
	}
	return uses
}

// Exceeds reports whether the pod is over the limit of its volume.
func (p *Pod) Exceeds(now time.Duration) bool {
	return p.exceeds > 0 && now >= p.born+p.exceeds && p.Ending < 0
}
