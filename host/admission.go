package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/victim"
)

// Admission is the answer to a pod that wants to start on the node, with the
// kubelet's reason and message if it may not.
type Admission = policy.Admission

// Admit decides whether pod may start under the conditions that the last pass
// reported. While none is reported every pod may. Otherwise critical pods may,
// and under memory pressure alone all that are not BestEffort or that tolerate
// it. A condition of an own signal is like disk pressure: critical pods only. It
// reads a snapshot, so that it may be called at any time and never waits for a
// pass.
func (m *Manager) Admit(pod *v1.Pod) Admission {
	return policy.Admit(pod, rules(m.config()).QoSClass(pod), m.loop.Snapshot().Conditions)
}

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

// HandleAdmissionFailure tries to make room for a pod that was not admitted for
// reasons, as the kubelet's CriticalPodAdmissionHandler does, and returns the
// reasons that are left: with none and no error the pod can be admitted. It does
// something only for a critical pod that lacks nothing but resources, and then
// kills other pods, one after the other, with their own grace periods; a kill
// that fails is logged, and the pod counts as gone all the same. In a dry run
// nobody is killed, and the reasons stay. It is an error if all pods that may go
// are not enough, if ctx ends between two kills, and if the Manager is not an
// embedded one.
//
// Calls must not overlap, as admissions in the kubelet do not: each would count
// on the same pods. A call may overlap with passes. A pod that is just being
// evicted still holds what it requests and is a candidate here, and a pod that
// is being preempted is one for eviction. Either is then killed a second time,
// as KillPodFunc says; the second status stands. Waiting for the first kill to
// end would let a slow preemption hold up a hard eviction.
func (m *Manager) HandleAdmissionFailure(ctx context.Context, pod *v1.Pod, reasons []FailureReason) ([]FailureReason, error) {
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
	if m.preemption == nil {
		return nil, errNotEmbedded
	}
	made, err := m.preemption.makeRoom(ctx, pod, lacks)
	if err != nil || made {
		return nil, err
	}
	return reasons, nil
}

// A preemption makes room for critical pods. All fields are required.
type preemption struct {
	// pods is nil until the manager is started.
	pods     atomic.Pointer[ActivePodsFunc]
	rules    pods.Rules
	kill     KillPodFunc
	recorder Recorder
	log      *slog.Logger
	// counted takes the first resource that was lacking, for each victim.
	counted func(resource string)
	dryRun  func() bool
	now     func() time.Time
}

// makeRoom reports false if there is no room, because it only pretended to make
// it.
func (p *preemption) makeRoom(ctx context.Context, preemptor *v1.Pod, lacks []policy.Requirement) (bool, error) {
	source := p.pods.Load()
	if source == nil {
		return false, errNotStarted
	}
	victims, err := policy.Preempt(preemptor, p.preemptibles((*source)()), lacks)
	if err != nil {
		return false, err
	}
	dry := p.dryRun()
	for _, pod := range victims {
		if err := ctx.Err(); err != nil {
			return false, fmt.Errorf("preemption for %s: %w", podName(preemptor), err)
		}
		p.log.Info("preempting pod", "pod", podName(pod), "uid", pod.UID, "for", podName(preemptor), "lacking", lacks, "dryRun", dry)
		if !dry {
			p.end(pod, lacks[0].Resource)
		}
	}
	return !dry || len(victims) == 0, nil
}

// end kills pod and returns when that is over.
func (p *preemption) end(pod *v1.Pod, first v1.ResourceName) {
	p.recorder.PodEvent(pod, nil, v1.EventTypeWarning, victim.ReasonPreempting, victim.MessagePreempted)
	started := p.now()
	err := p.kill(pod, true, nil, func(status *v1.PodStatus) {
		victim.SetPreempted(status, pod.Generation, p.now())
	})
	took := p.now().Sub(started).Seconds()
	if err != nil {
		p.log.Error("preempted pod not killed", "pod", podName(pod), "uid", pod.UID, "tookSeconds", took, "error", err)
		return
	}
	p.counted(string(first))
	p.log.Info("preempted pod killed", "pod", podName(pod), "uid", pod.UID, "tookSeconds", took)
}

func (p *preemption) preemptibles(active []*v1.Pod) []policy.Preemptible {
	out := make([]policy.Preemptible, 0, len(active))
	for _, pod := range active {
		out = append(out, policy.Preemptible{Pod: pod, QoSClass: p.rules.QoSClass(pod), Requests: p.rules.Requests(pod)})
	}
	return out
}

func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
