package kubernetes

import (
	"cmp"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	theKubelet = "the kubelet"
	podGC      = "pod garbage collection"
	// maxOtherBytes bounds the message in a record of an eviction by another program.
	maxOtherBytes = 1 << 10
)

// evictors holds who evicts a pod, by the reason of its condition DisruptionTarget.
var evictors = map[string]string{
	v1.PodReasonTerminationByKubelet:  theKubelet,
	v1.PodReasonPreemptionByScheduler: "the scheduler",
	"EvictionByEvictionAPI":           "the eviction API",
	"DeletionByTaintManager":          "the taint manager",
	"DeletionByPodGC":                 podGC,
}

// starvedSignals holds the signal of a resource that the kubelet's message names.
var starvedSignals = map[string]eviction.Signal{
	"memory": eviction.MemoryAvailable, "ephemeral-storage": eviction.NodeFsAvailable, "inodes": eviction.NodeFsInodesFree, "pids": eviction.PIDAvailable,
}

// Other returns the record of an eviction of p by another program, nil if p was not evicted or has
// evictd's mark. The eviction may still be evictd's own: the mark is optional. deleted: p is gone.
func Other(p *v1.Pod, deleted bool) *decision.Decision {
	target := conditionOf(p, v1.DisruptionTarget, v1.ConditionTrue)
	by, message, at := evictors[target.Reason], target.Message, target.LastTransitionTime.Time
	ended, gone := hasEnded(p), deleted || isDeleted(p)
	switch {
	case p.Status.Phase == v1.PodFailed && p.Status.Reason == victim.ReasonEvicted: // a later drain replaces the kubelet's condition
		by, message = theKubelet, cmp.Or(p.Status.Message, message)
		if at.IsZero() { // it has none for a pod over a limit of its own
			at = conditionOf(p, v1.PodReady, v1.ConditionFalse).LastTransitionTime.Time
		}
	case by == "", !ended && !gone, ended && by != theKubelet && by != podGC: // no eviction, not yet, or of a pod that had ended
		return nil
	}
	mark, _ := time.Parse(time.RFC3339Nano, p.Annotations[victim.AnnotationEvicted]) // zero on error
	if !mark.IsZero() && mark.Unix() == disruption(p).LastTransitionTime.Unix() {
		return nil
	}
	if at.IsZero() && p.Status.StartTime != nil { // rejected at its start
		at = p.Status.StartTime.Time
	}
	if now := time.Now(); at.IsZero() || at.After(now) {
		at = now
	}
	return &decision.Decision{
		Version: decision.Version, ID: decision.NewID(at), Kind: decision.KindOther, Time: at.UTC(), By: by,
		Victim: &decision.Victim{
			UID: string(p.UID), Pod: p.Namespace + "/" + p.Name, Signal: string(starvedSignals[policy.Starved(message)]), Message: message[:min(len(message), maxOtherBytes)],
		},
	}
}

// Wrote reports whether the message of a pod's status, or its beginning, is that of an eviction by
// this killer. After the end of Run it is true, as that is unknown.
func (k *Killer) Wrote(uid, message string) (is bool) {
	err := k.records.do(func(t *table) error {
		r := t.all[uid]
		is = r != nil && strings.HasPrefix(r.kill.Message, message)
		return nil
	})
	return is || err != nil
}
