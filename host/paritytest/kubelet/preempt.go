package kubelet

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/preemption"

	"github.com/evictd/evictd/host/internal/why/replay"
)

// A Rejection is a pod that was not admitted.
type Rejection struct {
	Pod     *v1.Pod
	Reasons []lifecycle.PredicateFailureReason
	// Active are the pods of the node.
	Active []*v1.Pod
	// KillErrors holds the errors of kills, by uid.
	KillErrors map[string]string
	// FeatureGates holds those with non-default values.
	FeatureGates map[string]bool
}

// A Response records the handling of a Rejection.
type Response struct {
	// Outcome holds the events and the kills.
	Outcome replay.Outcome
	// Left holds the remaining reasons.
	Left  []lifecycle.PredicateFailureReason
	Error string
}

// Preempt makes room for a pod with the kubelet's code.
func (k *Kubelet) Preempt(ctx context.Context, r *Rejection) (*Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	reset, err := setGates(r.FeatureGates)
	if err != nil {
		return nil, err
	}
	defer reset()
	record := &Record{KillErrors: r.KillErrors}
	handler := preemption.NewCriticalPodAdmissionHandler(func() []*v1.Pod { return slices.Clone(r.Active) }, record.Kill, record)
	left, err := preempt(klog.NewContext(ctx, logr.Discard()), handler, r)
	return &Response{Outcome: record.Outcome, Left: left, Error: text(err)}, nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprint(err)
}
