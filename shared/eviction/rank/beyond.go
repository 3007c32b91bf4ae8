package rank

import (
	"cmp"

	"github.com/evictd/evictd/shared/eviction"
)

// What the kubelet does not rank by is in this file, so that the rest can be
// compared with it.

// own is the order for a signal that is not the kubelet's: lower priority, then
// larger use as its measurer has it, then QoS class, which decides alone where
// nobody measures. As everywhere pods without stats go before the measured ones of
// their priority and those of unknown use after them.
func own(s eviction.Signal) Compare { return Chain(Priority, Usage(s), QoS) }

// QoS puts BestEffort before Burstable before Guaranteed. The kubelet does not
// rank by it; it is what is left when nothing was measured.
func QoS(a, b *eviction.Candidate) int {
	return cmp.Compare(qosOrder(a.Pod.QoSClass), qosOrder(b.Pod.QoSClass))
}

func qosOrder(c eviction.QoSClass) int {
	switch c {
	case eviction.BestEffort:
		return 0
	case eviction.Guaranteed:
		return 2
	default:
		return 1
	}
}
