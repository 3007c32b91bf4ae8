package policy

import v1 "k8s.io/api/core/v1"

const (
	// HardGraceSeconds is the grace period of the victim of a hard threshold.
	HardGraceSeconds = 1
	// systemCriticalPriority is the lowest priority that protects a pod
	// (scheduling.SystemCriticalPriority).
	systemCriticalPriority = 2_000_000_000

	annotationSource = "kubernetes.io/config.source"
	annotationMirror = "kubernetes.io/config.mirror"
	sourceAPI        = "api"
)

// GraceOverride returns the grace period in seconds for a victim of t: 1 under a
// hard threshold, else the smaller of evictionMaxPodGracePeriod and the pod's
// own, or the former if the pod has none. A negative evictionMaxPodGracePeriod means
// the pod's own, as the kubelet's documentation says and its code does not
// (kubernetes/kubernetes#118172).
func GraceOverride(t Threshold, maxPodGracePeriodSeconds int32, podTermination *int64) int64 {
	grace := int64(maxPodGracePeriodSeconds)
	switch {
	case t.Hard():
		return HardGraceSeconds
	case grace < 0 && podTermination == nil:
		return v1.DefaultTerminationGracePeriodSeconds
	case grace < 0:
		return *podTermination
	case podTermination == nil:
		return grace
	default:
		return min(grace, *podTermination)
	}
}

// IsCritical reports whether pod must never be evicted: it is static (from a
// source other than the API), a mirror of a static one, or of a system-critical
// priority (types.IsCriticalPod).
func IsCritical(pod *v1.Pod) bool {
	if source, ok := pod.Annotations[annotationSource]; ok && source != sourceAPI {
		return true
	}
	if _, ok := pod.Annotations[annotationMirror]; ok {
		return true
	}
	return pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCriticalPriority
}

// Evictable reports whether pod may be a candidate at all: its spec is known and
// it is not critical.
func Evictable(pod *v1.Pod) bool { return pod != nil && !IsCritical(pod) }
