package rank

import "github.com/evictd/evictd/shared/eviction"

// This file holds the criteria that the kubelet does not rank by, so that the rest can be
// compared with the kubelet.

// QoS puts BestEffort before Burstable before Guaranteed. The kubelet does not rank by
// it; use it where there are no measurements.
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
