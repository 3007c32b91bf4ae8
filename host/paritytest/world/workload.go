package world

import "time"

// A kind is the kind of a workload's controller.
type kind int

const (
	// A ReplicaSet makes the next pod as soon as one has failed.
	replicaSet kind = iota
	// A StatefulSet makes it under the same name, when the old one has ended.
	statefulSet
	// A DaemonSet waits longer with each failure, and until its pods tolerate the node's taints.
	daemonSet
	// A Job waits longer with each failure, and gives up.
	job
	// A bare pod does not come back.
	bare

	kinds
)

func (k kind) String() string {
	return [...]string{"ReplicaSet", "StatefulSet", "DaemonSet", "Job", "bare"}[k]
}

const (
	jobBackoff, jobLimit            = 10 * time.Second, 6
	daemonBackoff, daemonMaxBackoff = time.Second, 15 * time.Minute
)

// A workload is a template of pods and their controller.
type workload struct {
	name     string
	kind     kind
	replicas int
	// tolerates: its pods tolerate every taint. pinned: they name the first node, so that no scheduler
	// is asked.
	tolerates, pinned bool
	// request is in MiB, 0 for BestEffort.
	request float64
	// A pod uses base MiB when it starts and grows to most, by rate MiB per second.
	base, most, rate float64
	// ends is the time that a victim takes to terminate. late after that the fraction part of its
	// memory comes back; the rest never does.
	ends, late time.Duration
	part       float64
	// volume: what comes back late is in a memory-backed volume.
	volume bool
	// A pod exceeds the limit of its volume so long after its start, if that is not zero. Its victims take MiB per second of
	// memory while they end.
	exceeds time.Duration
	takes   float64
}

// again returns the time from the end of the given number of pods to the next pod, ok if there
// is one.
func (w *workload) again(failures int) (after time.Duration, ok bool) {
	switch w.kind {
	case job:
		return jobBackoff << (failures - 1), failures <= jobLimit
	case daemonSet:
		return min(daemonBackoff<<min(failures-1, 10), daemonMaxBackoff), true
	case replicaSet, statefulSet:
		return 0, true
	default:
		return 0, false
	}
}

// accepts reports whether a pod of w may come to a node with the taint of that key.
func (w *workload) accepts(taint string) bool {
	return taint == "" || w.tolerates || w.pinned || w.kind == daemonSet && taint == kubeletTaint
}

// refused reports whether the kubelet refuses a pod of w while its condition has the taint of that
// key.
func (w *workload) refused(condition string) bool {
	return condition == kubeletTaint && w.request == 0 && !w.tolerates && w.kind != daemonSet
}
