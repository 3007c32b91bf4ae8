// Package admission decides whether a pod may start on a node under pressure, and chooses the pods
// that make room for a critical one, by the kubelet's rules. It is pure, and ends no pod.
package admission

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// reasonRejected is the reason that a pod is rejected for: the kubelet's, which
// is the one of evictions.
const reasonRejected = "Evicted"

// Answer is the answer to a pod that wants to start on this node.
type Answer struct {
	Admit bool
	// Reason and Message are for the status of a pod that is not admitted.
	Reason, Message string
}

// Admit decides whether pod, of the given class, may start while the node reports
// conditions. Any condition keeps all pods out that are not critical, but memory
// pressure alone only those that are BestEffort and do not tolerate it. A
// condition of a plugin's custom signal is as any other than memory pressure. The
// message lists conditions by name, where the kubelet's order is random.
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

// toleratesMemoryPressure reports whether t matches the taint that goes with
// MemoryPressure. The taint has no value, so that comparisons never match.
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
