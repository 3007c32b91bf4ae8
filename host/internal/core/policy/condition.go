package policy

import (
	"strings"

	"github.com/evictd/evictd/shared/eviction"
)

// EventReasonThresholdMet is the reason of the event that the node gets each
// time a threshold is acted on, of type Warning.
const EventReasonThresholdMet = "EvictionThresholdMet"

// NodeEvent returns reason and message of the node event that precedes acting on t.
func NodeEvent(t Threshold) (reason, message string) {
	return EventReasonThresholdMet, "Attempting to reclaim " + t.Definition().Resource
}

// Text holds the texts of a condition's status on the node.
type Text struct {
	Reason, Message string
	// EventReason is the reason of the event, of type Normal, about a change.
	EventReason string
}

// ConditionText returns the texts for condition c with the given status: the
// kubelet's for its conditions (nodestatus/setters.go), and for a plugin's
// acme.example/NVMePressure alike, with the events NodeHasNVMePressure and
// NodeHasNoNVMePressure.
func ConditionText(c eviction.Condition, status bool) Text {
	texts, ok := conditionTexts[c]
	switch {
	case !ok && status:
		return Text{"EvictionThresholdMet", "an eviction threshold of " + string(c) + " is met", "NodeHas" + Word(c)}
	case !ok:
		return Text{"EvictionThresholdNotMet", "no eviction threshold of " + string(c) + " is met", "NodeHasNo" + Word(c)}
	case status:
		return texts.pressure
	default:
		return texts.relief
	}
}

// Word returns a custom condition's name without its domain, as one word like all event reasons.
func Word(c eviction.Condition) string {
	name := string(c[strings.Index(string(c), "/")+1:])
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
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
