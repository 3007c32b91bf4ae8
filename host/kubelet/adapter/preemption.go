package adapter

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/evictd/evictd/host"
)

// A Preemption runs evictd in place of the kubelet's handler for critical pods that were not
// admitted: it has the fields of preemption.CriticalPodAdmissionHandler.
type Preemption struct {
	Pods     func() []*v1.Pod
	KillPod  host.KillPodFunc
	Recorder record.EventRecorder
	// Resize is set if the pod is running and is to be resized, from Kubernetes 1.37 on.
	Resize bool
}

// HandleAdmissionFailure implements lifecycle.AdmissionFailureHandler.
func (p Preemption) HandleAdmissionFailure(ctx context.Context, pod *v1.Pod, reasons []lifecycle.PredicateFailureReason) ([]lifecycle.PredicateFailureReason, error) {
	const byScheduler = "InPlacePodVerticalScalingSchedulerPreemption"
	if p.Resize && gates(byScheduler)[byScheduler] {
		return reasons, nil
	}
	c, err := settings()
	if err != nil {
		return reasons, err
	}
	of := host.Preemption{
		Pods: p.Pods, KillPod: p.KillPod, Recorder: events{to: p.Recorder}, Log: log(), Metrics: counts{},
		Config: func() *host.Config { return &c },
	}
	reported := make([]host.FailureReason, 0, len(reasons))
	for _, r := range reasons {
		if e, ok := r.(*lifecycle.InsufficientResourceError); ok {
			reported = append(reported, shortage{e})
		} else {
			reported = append(reported, r)
		}
	}
	left, err := of.HandleAdmissionFailure(ctx, pod, reported)
	reasons = nil
	for _, r := range left {
		if s, ok := r.(shortage); ok {
			reasons = append(reasons, s.InsufficientResourceError)
		} else {
			reasons = append(reasons, r)
		}
	}
	return reasons, err
}

// shortage adapts the kubelet's reason to host.InsufficientResource.
type shortage struct {
	*lifecycle.InsufficientResourceError
}

// GetResourceName implements host.InsufficientResource.
func (s shortage) GetResourceName() v1.ResourceName { return s.ResourceName }
