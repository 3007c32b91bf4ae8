package policy

import (
	"github.com/evictd/evictd/shared/eviction"
)

// EventReasonThresholdMet is the reason of the event that the node gets each
// time a threshold is acted on, of type Warning.
const EventReasonThresholdMet = "EvictionThresholdMet"

// NodeEvent returns reason and message of the event on the node that goes before
// acting on t.
func NodeEvent(t Threshold) (reason, message string) {
	return EventReasonThresholdMet, "Attempting to reclaim " + t.Definition().Resource
}

// Text is how a condition's status reads on the node.
type Text struct {
	Reason, Message string
	// EventReason is the reason of the event, of type Normal, that tells of a
	// change.
	EventReason string
}

// ConditionText returns the texts for condition c with the given status: the
// kubelet's for its own conditions (nodestatus/setters.go).
func ConditionText(c eviction.Condition, status bool) Text {
	texts, ok := conditionTexts[c]
	switch {
	case !ok && status:
		return Text{"EvictionThresholdMet", "an eviction threshold of " + string(c) + " is met", "NodeHasPressure"}
	case !ok:
		return Text{"EvictionThresholdNotMet", "no eviction threshold of " + string(c) + " is met", "NodeHasNoPressure"}
	case status:
		return texts.pressure
	default:
		return texts.relief
	}
}

var conditionTexts = map[eviction.Condition]struct{ pressure, relief Text }{
	eviction.MemoryPressure: {
		Text{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"},
		Text{"KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"},
	},
	eviction.DiskPressure: {
		Text{"KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"},
		Text{"KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"},
	},
	eviction.PIDPressure: {
		Text{"KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"},
		Text{"KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"},
	},
}
