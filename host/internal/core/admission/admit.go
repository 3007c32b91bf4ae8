// Package admission decides whether a pod may start on a node under pressure, and chooses the pods
// to kill for a critical one, by the kubelet's rules. It is pure, and kills no pod.
package admission

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// reasonRejected is the kubelet's reason for rejecting a pod, the same as for evictions.
const reasonRejected = "Evicted"

// Answer is the answer to a pod that wants to start on this node.
type Answer struct {
	Admit bool
	// Reason and Message are for the status of a rejected pod.
	Reason, Message string
}

// Admit decides whether pod, of the given class, may start while the node reports conditions. Any
// condition rejects all pods that are not critical, except that memory pressure alone rejects only
// those that are BestEffort and do not tolerate it. A condition of a custom signal counts like any
// other than memory pressure. The message lists conditions by name; the kubelet's order is random.
func Admit(pod *v1.Pod, class eviction.QoSClass, conditions []eviction.Condition) Answer {
	reported := slices.Compact(slices.Sorted(slices.Values(conditions)))
	switch {
	case len(reported) == 0, policy.IsCritical(pod):
		return Answer{Admit: true}
	case len(reported) == 1 && reported[0] == eviction.MemoryPressure:
		if class != eviction.BestEffort || slices.ContainsFunc(pod.Spec.Tolerations, toleratesMemoryPressure) {
			return Answer{Admit: true}
		}
	}
	return Answer{Reason: reasonRejected, Message: fmt.Sprintf("The node had condition: %v. ", reported)}
}

// toleratesMemoryPressure reports whether t matches the taint of MemoryPressure. The taint has no
// value, so comparisons never match.
func toleratesMemoryPressure(t v1.Toleration) bool {
	if t.Key != "" && t.Key != v1.TaintNodeMemoryPressure || t.Effect != "" && t.Effect != v1.TaintEffectNoSchedule {
		return false
	}
	switch t.Operator {
	case v1.TolerationOpExists:
		return true
	case "", v1.TolerationOpEqual:
		return t.Value == ""
	default:
		return false
	}
}
