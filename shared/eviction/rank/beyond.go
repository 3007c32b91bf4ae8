package rank

import "github.com/evictd/evictd/shared/eviction"

// What the kubelet does not rank by is in this file, so that the rest can be
// compared with it.

// QoS puts BestEffort before Burstable before Guaranteed. The kubelet does not
// rank by it; it is what is left when nothing was measured.
func QoS(a, b *eviction.Candidate) int { return by(qos)(a, b) }

func qos(c *eviction.Candidate) rating {
	switch c.Pod.QoSClass {
	case eviction.BestEffort:
		return rating{hi: 0}
	case eviction.Guaranteed:
		return rating{hi: 2}
	default:
		return rating{hi: 1}
	}
}
