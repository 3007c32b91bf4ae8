//go:build kubernetes_1_35 || kubernetes_1_36

package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/preemption"
)

func admit(h lifecycle.PodAdmitHandler, pod *v1.Pod) lifecycle.PodAdmitResult {
	return h.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
}

func preempt(ctx context.Context, h *preemption.CriticalPodAdmissionHandler, r *Rejection) ([]lifecycle.PredicateFailureReason, error) {
	return h.HandleAdmissionFailure(ctx, r.Pod, r.Reasons)
}
