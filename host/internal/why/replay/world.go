package replay

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/admission"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/face/config"
)

// The steps of node-level reclaim, by their names in recorded decisions.
const (
	stepContainerGC = "container-gc"
	stepImageGC     = "image-gc"
)

// Kinds of the objects of events.
const (
	kindNode = "Node"
	kindPod  = "Pod"
)

// everyPod matches all pods in Step.KillErrors.
const everyPod = "*"

var errNoSummary = errors.New("the scenario has no summary yet")

// A World simulates the surroundings of a manager: it answers as the current step prescribes, and
// records the manager's actions. It implements package host's embedding API.
type World struct {
	// Config is the manager's configuration in the scenario.
	Config config.Config
	Log    *slog.Logger

	nodeName string
	layout   string

	mu      sync.Mutex
	now     time.Time
	waited  time.Duration // in the clean-up of this step
	pods    []*v1.Pod
	step    *Step
	summary []byte // of the last step that had one
	calls   int    // for a summary, in this step
	// did records the manager's actions in this step.
	did Outcome
}

func newWorld(s *Scenario) *World {
	return &World{nodeName: s.NodeName, layout: s.FilesystemLayout, now: s.StartTime.Time, pods: slices.Clone(s.Pods), step: &Step{}}
}

// begin applies the changes of step and clears the recorded actions.
func (w *World) begin(step *Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.step = step
	w.now = w.now.Add(step.Advance())
	w.waited, w.calls, w.did = 0, 0, Outcome{}
	// The manager may still hold the former slice.
	pods := slices.DeleteFunc(slices.Clone(w.pods), func(p *v1.Pod) bool { return slices.Contains(step.RemovePods, string(p.UID)) })
	for _, update := range step.UpdatePods {
		for i, p := range pods {
			if p.UID == update.UID {
				pods[i] = update
			}
		}
	}
	w.pods = append(pods, step.AddPods...)
	if step.Summary != nil {
		w.summary = step.Summary
	}
}

// Now returns the time of passes.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// After serves the wait for clean-up. It fires at once and advances only the time of that wait; the
// scenario sets the time of passes.
func (w *World) After(d time.Duration) <-chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waited += max(d, 0)
	fired := make(chan time.Time, 1)
	fired <- w.now.Add(w.waited)
	return fired
}

// ActivePods returns the active pods.
func (w *World) ActivePods() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.pods)
}

// Summary returns the summary for the first call of a pass, and then the one for after a reclaim.
func (w *World) Summary(context.Context) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	fails, after := w.step.SummaryError, w.step.Reclaim
	summary := w.summary
	if w.calls > 1 {
		fails = ""
		if after != nil {
			fails = after.SummaryAfterError
		}
		if after != nil && after.SummaryAfter != nil {
			summary = after.SummaryAfter
		}
	}
	switch {
	case fails != "":
		return nil, errors.New(fails)
	case summary == nil:
		return nil, errNoSummary
	default:
		return summary, nil
	}
}

// HasDedicatedImageFs reports whether images have a dedicated filesystem.
func (w *World) HasDedicatedImageFs(context.Context) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step.DiskInfoError != "" {
		return false, errors.New(w.step.DiskInfoError)
	}
	return w.layout != LayoutShared, nil
}

// HasDedicatedContainerFs reports whether writable layers are on the kubelet's filesystem while
// images have a dedicated one.
func (w *World) HasDedicatedContainerFs(context.Context) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step.ContainerFsInfoError != "" {
		return false, errors.New(w.step.ContainerFsInfoError)
	}
	return w.layout == LayoutContainerFs, nil
}

// Reclaim returns the steps of node-level reclaim, by name.
func (w *World) Reclaim() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		stepContainerGC: w.collect(stepContainerGC, func(r *Reclaim) string { return r.ContainerGCError }),
		stepImageGC:     w.collect(stepImageGC, func(r *Reclaim) string { return r.ImageGCError }),
	}
}

func (w *World) collect(step string, fails func(*Reclaim) string) func(context.Context) error {
	return func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.did.ReclaimCalls = append(w.did.ReclaimCalls, step)
		if r := w.step.Reclaim; r != nil && fails(r) != "" {
			return errors.New(fails(r))
		}
		return nil
	}
}

// KillPod records the effects of a real kill function.
func (w *World) KillPod(pod *v1.Pod, isEvicted bool, grace *int64, statusFn func(*v1.PodStatus)) error {
	former := pod.Status.DeepCopy()
	status := former.DeepCopy()
	if statusFn != nil {
		statusFn(status)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	text, ok := w.step.KillErrors[string(pod.UID)]
	if !ok {
		text = w.step.KillErrors[everyPod]
	}
	e := Eviction{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, IsEvicted: isEvicted,
		Phase: string(status.Phase), Reason: status.Reason, Message: status.Message,
		Conditions: changed(former.Conditions, status.Conditions), KillError: text,
	}
	switch {
	case grace != nil:
		e.GracePeriodSeconds = *grace
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		e.GracePeriodSeconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	w.did.Evictions = append(w.did.Evictions, e)
	if text != "" {
		return errors.New(text)
	}
	return nil
}

// changed returns the conditions in now that former lacks, without their transition times.
func changed(former, now []v1.PodCondition) []v1.PodCondition {
	var out []v1.PodCondition
	for _, c := range now {
		if !slices.ContainsFunc(former, func(f v1.PodCondition) bool { return equality.Semantic.DeepEqual(f, c) }) {
			c.LastTransitionTime = metav1.Time{}
			out = append(out, c)
		}
	}
	return out
}

// CleanedUp reports whether killed pods are cleaned up.
func (w *World) CleanedUp(*v1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	after, ok := w.step.Cleanup()
	return ok && w.waited >= after
}

// NodeEvent records an event.
func (w *World) NodeEvent(eventType, reason, message string) {
	w.event(Event{Kind: kindNode, UID: w.nodeName, Name: w.nodeName, Type: eventType, Reason: reason, Message: message})
}

// PodEvent records an event.
func (w *World) PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	w.event(Event{Kind: kindPod, UID: string(pod.UID), Name: pod.Name, Type: eventType, Reason: reason, Message: message, Annotations: annotations})
}

func (w *World) event(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did.Events = append(w.did.Events, e)
}

// A Manager is an eviction manager that makes passes on request.
type Manager interface {
	// Synchronize makes one complete pass and returns after its kills.
	Synchronize(context.Context) (loop.PassResult, error)
	// AwaitCleanup waits, on Clock, for the pods that the pass evicted. It returns the context's
	// error.
	AwaitCleanup(context.Context, loop.PassResult) error
	IsUnderMemoryPressure() bool
	IsUnderDiskPressure() bool
	IsUnderPIDPressure() bool
	Admit(*v1.Pod) admission.Answer
}

// A Start makes a Manager for a World through package host's embedding API. The Manager makes
// passes only on request. stop ends it and everything that belongs to it, and waits for that.
type Start func(ctx context.Context, w *World) (m Manager, stop func(), err error)
