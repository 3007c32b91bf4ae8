package policy

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// HardGraceSeconds is what the victim of a hard threshold gets.
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

// Shortens reports whether a victim that is ending has its grace period cut to
// HardGraceSeconds because t is met and no other pod may go yet. hard: it went for a hard
// threshold itself.
func Shortens(t Threshold, hard bool, graceSeconds int64) bool {
	return t.Hard() && !hard && graceSeconds > HardGraceSeconds
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

// intentAge is how long after its grace period a kill of a former host is finished
// without a new reason.
const intentAge = time.Minute

// An Intent is a kill that a former host decided on and is not known to have
// finished, seen from now.
type Intent struct {
	// Overdue is how long its grace period is over, negative if it is not.
	Overdue time.Duration
	DryRun  bool
	// There: a pod of that uid is active. Pod is its spec, nil if that is not known.
	There bool
	Pod   *v1.Pod
	// Looked: it is known whether the threshold's signal is short of it now, and
	// Short is the answer.
	Looked, Short bool
}

// What becomes of an Intent.
const (
	FinishKill   = "finish"
	DropKill     = "drop"
	PostponeKill = "postpone"
	AwaitEnd     = "await" // nothing to kill, its end is waited for
)

// JudgeIntent says what becomes of a kill of a former host, and why it is dropped:
// the world may have changed since it was decided on, and an old decision is no reason
// to end a pod that would not be chosen now.
func JudgeIntent(i Intent) (verdict, reason string) {
	switch {
	case i.DryRun:
		return DropKill, "this is a dry run"
	case !i.There:
		return AwaitEnd, ""
	case !Evictable(i.Pod):
		return DropKill, "the pod may not be evicted any more"
	case i.Overdue < intentAge || i.Short:
		return FinishKill, ""
	case !i.Looked:
		return PostponeKill, ""
	default:
		return DropKill, "it was decided on long ago and the node is not short any more"
	}
}
