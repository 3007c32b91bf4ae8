package host

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evictd/evictd/host/internal/core/admission"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/record/recorder"
	"github.com/evictd/evictd/shared/eviction"
)

// Admit decides whether pod may start on a node that reports conditions, like Embedded.Admit. It is
// a pure function, for a program that keeps conditions itself. Of c it reads the feature gates
// only.
func Admit(pod *v1.Pod, conditions []eviction.Condition, c *Config) Admission {
	return admission.Admit(pod, parts.Rules(c).QoSClass(pod), conditions)
}

// Admission is the answer to a pod that wants to start on the node, with the
// kubelet's reason and message if it may not.
type Admission = admission.Answer

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
	// GetInsufficientAmount returns the missing amount: cpu in millicores, everything else in
	// whole units.
	GetInsufficientAmount() int64
}

// A Preemption makes room for critical pods. An Embedded contains one; a program that has none,
// or none yet, can use it directly.
type Preemption struct {
	// Pods, KillPod, Recorder and Log are required.
	Pods     ActivePodsFunc
	KillPod  KillPodFunc
	Recorder Recorder
	Log      *slog.Logger
	// Clock is the real one if nil.
	Clock Clock
	// Metrics may be nil.
	Metrics Metrics
	// Config returns the configuration: DryRun, and the feature gates that decide what pods
	// request. DefaultConfig is used if it is nil.
	Config func() *Config

	records *recorder.Keeper
}

// HandleAdmissionFailure is like Embedded.HandleAdmissionFailure.
func (p *Preemption) HandleAdmissionFailure(ctx context.Context, pod *v1.Pod, reasons []FailureReason) ([]FailureReason, error) {
	lacks, left := shortages(pod, reasons)
	if len(left) > 0 || !policy.IsCritical(pod) {
		return left, nil
	}
	made, err := p.makeRoom(ctx, pod, lacks)
	if err != nil || made {
		return nil, err
	}
	return reasons, nil
}

// shortages splits reasons: lacks holds the resources that preemption can free for a critical pod,
// left the reasons that it cannot remove.
func shortages(pod *v1.Pod, reasons []FailureReason) (lacks []admission.Requirement, left []FailureReason) {
	if !policy.IsCritical(pod) {
		return nil, reasons
	}
	for _, r := range reasons {
		if short, ok := r.(InsufficientResource); ok {
			lacks = append(lacks, admission.Requirement{Resource: short.GetResourceName(), Quantity: short.GetInsufficientAmount()})
		} else {
			left = append(left, r)
		}
	}
	// A critical pod is not rejected for lack of resources.
	return lacks, left
}

// makeRoom kills pods until preemptor fits. It reports false after a dry run, which frees nothing.
func (p *Preemption) makeRoom(ctx context.Context, preemptor *v1.Pod, lacks []admission.Requirement) (bool, error) {
	c := DefaultConfig()
	if p.Config != nil {
		c = *p.Config()
	}
	rules := parts.Rules(&c)
	var all []admission.Preemptible
	for _, pod := range p.Pods() {
		all = append(all, admission.Preemptible{Pod: pod, QoSClass: rules.QoSClass(pod), Requests: rules.Requests(pod)})
	}
	victims, err := admission.Preempt(preemptor, all, lacks)
	if err != nil {
		return false, err
	}
	for _, pod := range victims {
		if err := ctx.Err(); err != nil {
			return false, fmt.Errorf("preemption for %s: %w", podName(preemptor), err)
		}
		p.Log.Info("preempting pod", "pod", podName(pod), "uid", pod.UID, "for", podName(preemptor), "lacking", lacks, "dryRun", c.DryRun)
		if !c.DryRun {
			p.preempt(pod, preemptor, lacks[0].Resource)
		}
	}
	return !c.DryRun || len(victims) == 0, nil
}

// preempt kills pod and waits until KillPod returns.
func (p *Preemption) preempt(pod, preemptor *v1.Pod, first v1.ResourceName) {
	now := clock.RealClock{}.Now
	if p.Clock != nil {
		now = p.Clock.Now
	}
	p.Recorder.PodEvent(pod, nil, v1.EventTypeWarning, victim.ReasonPreempting, victim.MessagePreempted)
	started := now()
	err := p.KillPod(pod, true, nil, func(status *v1.PodStatus) {
		victim.SetPreempted(status, pod.Generation, now())
	})
	took := now().Sub(started).Round(time.Millisecond).Seconds()
	p.records.Preempted(preempted(pod, preemptor, first, took, err))
	if err != nil {
		p.Log.Error("preempted pod not killed", "pod", podName(pod), "uid", pod.UID, "tookSeconds", took, "error", err)
		return
	}
	if p.Metrics != nil {
		p.Metrics.Preempted(string(first))
	}
	p.Log.Info("preempted pod killed", "pod", podName(pod), "uid", pod.UID, "tookSeconds", took)
}

// preempted returns the decision record of a pod killed for preemptor, which lacks a resource.
func preempted(pod, preemptor *v1.Pod, lacks v1.ResourceName, tookSeconds float64, err error) *decision.Decision {
	killed := time.Duration(tookSeconds * float64(time.Second))
	at := time.Now().Add(-killed)
	d := &decision.Decision{
		Version: decision.Version, ID: decision.NewID(at), Kind: decision.KindPreemption, Time: at.Round(0),
		Victim: &decision.Victim{UID: string(pod.UID), Pod: podName(pod), Message: victim.MessagePreempted},
		Reason: fmt.Sprintf("to admit the critical pod %s, which lacks %s", podName(preemptor), lacks),
	}
	d.Outcome = &decision.Outcome{ID: d.ID, State: victim.StateFinished, KilledMS: decision.MS(at.Add(killed), at)}
	if err != nil {
		d.Outcome.State, d.Outcome.Err = victim.StateGivenUp, err.Error()
	}
	return d
}

func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
