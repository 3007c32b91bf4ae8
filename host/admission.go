package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/victim"
)

// Admission is the answer to a pod that wants to start on the node, with the
// kubelet's reason and message if it may not.
type Admission = policy.Admission

// A FailureReason says why a pod cannot be admitted. A PredicateFailureReason of
// the kubelet is one.
type FailureReason interface {
	GetReason() string
}

// An InsufficientResource is the FailureReason that there is too little left of
// a resource. The kubelet's InsufficientResourceError becomes one with a type
// that embeds it and returns its ResourceName:
//
//	type shortage struct{ *lifecycle.InsufficientResourceError }
//
//	func (s shortage) GetResourceName() v1.ResourceName { return s.ResourceName }
type InsufficientResource interface {
	FailureReason
	GetResourceName() v1.ResourceName
	// GetInsufficientAmount is how much is missing: cpu in thousandths, everything
	// else whole.
	GetInsufficientAmount() int64
}

// Why there is nobody to preempt.
var (
	errNotEmbedded = errors.New("preemption: only an embedded manager can make room for a pod")
	errNotStarted  = errors.New("preemption: the manager was not started, it does not know the pods of the node")
)

// handleFailure is HandleAdmissionFailure; a nil embedding is that of a daemon.
func (e *embedding) handleFailure(ctx context.Context, pod *v1.Pod, reasons []FailureReason) ([]FailureReason, error) {
	if !policy.IsCritical(pod) {
		return reasons, nil
	}
	var lacks []policy.Requirement
	var others []FailureReason
	for _, r := range reasons {
		if short, ok := r.(InsufficientResource); ok {
			lacks = append(lacks, policy.Requirement{Resource: short.GetResourceName(), Quantity: short.GetInsufficientAmount()})
		} else {
			others = append(others, r)
		}
	}
	if len(others) > 0 {
		// No room would help. A critical pod is not rejected for want of resources.
		return others, nil
	}
	if e == nil {
		return nil, errNotEmbedded
	}
	made, err := e.makeRoom(ctx, pod, lacks)
	if err != nil || made {
		return nil, err
	}
	return reasons, nil
}

// makeRoom reports false if there is no room, because it only pretended to make
// it.
func (e *embedding) makeRoom(ctx context.Context, preemptor *v1.Pod, lacks []policy.Requirement) (bool, error) {
	active := e.active.Load()
	if active == nil {
		return false, errNotStarted
	}
	victims, err := policy.Preempt(preemptor, preemptibles((*active)(), e.rules), lacks)
	if err != nil {
		return false, err
	}
	dry := e.dryRun()
	for _, pod := range victims {
		if err := ctx.Err(); err != nil {
			return false, fmt.Errorf("preemption for %s: %w", podName(preemptor), err)
		}
		e.Log.Info("preempting pod", "pod", podName(pod), "uid", pod.UID, "for", podName(preemptor), "lacking", lacks, "dryRun", dry)
		if !dry {
			e.preempt(pod, lacks[0].Resource)
		}
	}
	return !dry || len(victims) == 0, nil
}

// preempt kills pod and returns when that is over.
func (e *embedding) preempt(pod *v1.Pod, first v1.ResourceName) {
	e.recorder.PodEvent(pods.Pod{API: pod}, v1.EventTypeWarning, victim.ReasonPreempting, victim.MessagePreempted, nil)
	started := e.Clock.Now()
	err := e.KillPod(pod, true, nil, func(status *v1.PodStatus) {
		victim.SetPreempted(status, pod.Generation, e.Clock.Now())
	})
	took := e.Clock.Now().Sub(started).Round(time.Millisecond).Seconds()
	if err != nil {
		e.Log.Error("preempted pod not killed", "pod", podName(pod), "uid", pod.UID, "tookSeconds", took, "error", err)
		return
	}
	e.preempted(string(first))
	e.Log.Info("preempted pod killed", "pod", podName(pod), "uid", pod.UID, "tookSeconds", took)
}

func preemptibles(active []*v1.Pod, rules pods.Rules) []policy.Preemptible {
	out := make([]policy.Preemptible, 0, len(active))
	for _, pod := range active {
		out = append(out, policy.Preemptible{Pod: pod, QoSClass: rules.QoSClass(pod), Requests: rules.Requests(pod)})
	}
	return out
}

func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
