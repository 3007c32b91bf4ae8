package replay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The steps of node-level reclaim, as recorded decisions name them.
const (
	stepContainerGC = "container-gc"
	stepImageGC     = "image-gc"
)

// What events are about.
const (
	kindNode = "Node"
	kindPod  = "Pod"
)

// everyPod stands for all pods in Step.KillErrors.
const everyPod = "*"

var errNoSummary = errors.New("the scenario has no summary yet")

// world is what a manager finds around it in a scenario: it answers as the
// present step says, and remembers what the manager did.
type world struct {
	nodeName string
	layout   string

	mu      sync.Mutex
	now     time.Time
	waited  time.Duration // in the clean-up of this step
	pods    []*v1.Pod
	step    *Step
	summary []byte // of the last step that had one
	calls   int    // for a summary, in this step
	reclaim []string
	kills   []Eviction
	events  []Event
}

func newWorld(s *Scenario) *world {
	return &world{nodeName: s.NodeName, layout: s.FilesystemLayout, now: s.StartTime.Time, pods: slices.Clone(s.Pods), step: &Step{}}
}

// begin changes the world as step says and forgets what the manager did.
func (w *world) begin(step *Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.step = step
	w.now = w.now.Add(step.Advance())
	w.waited, w.calls = 0, 0
	w.reclaim, w.kills, w.events = nil, nil, nil
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

// Now implements Clock.
func (w *world) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// After implements Clock. Who waits is served at once: only the time of the wait
// goes on, that of the passes is the scenario's.
func (w *world) After(d time.Duration) <-chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waited += max(d, 0)
	fired := make(chan time.Time, 1)
	fired <- w.now.Add(w.waited)
	return fired
}

func (w *world) activePods() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.pods)
}

// fetch returns the summary of the first call of a pass, and afterwards the one
// that follows a reclaim.
func (w *world) fetch(context.Context) ([]byte, error) {
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

// HasDedicatedImageFs implements DiskInfo.
func (w *world) HasDedicatedImageFs(context.Context) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step.DiskInfoError != "" {
		return false, errors.New(w.step.DiskInfoError)
	}
	return w.layout != LayoutShared, nil
}

// HasDedicatedContainerFs implements DiskInfo.
func (w *world) HasDedicatedContainerFs(context.Context) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step.ContainerFsInfoError != "" {
		return false, errors.New(w.step.ContainerFsInfoError)
	}
	return w.layout == LayoutContainerFs, nil
}

func (w *world) collectContainers(context.Context) error {
	return w.collect(stepContainerGC, func(r *Reclaim) string { return r.ContainerGCError })
}

func (w *world) collectImages(context.Context) error {
	return w.collect(stepImageGC, func(r *Reclaim) string { return r.ImageGCError })
}

func (w *world) collect(step string, fails func(*Reclaim) string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reclaim = append(w.reclaim, step)
	if r := w.step.Reclaim; r != nil && fails(r) != "" {
		return errors.New(fails(r))
	}
	return nil
}

// kill records what a real kill function would do.
func (w *world) kill(pod *v1.Pod, isEvicted bool, grace *int64, statusFn func(*v1.PodStatus)) error {
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
	w.kills = append(w.kills, e)
	if text != "" {
		return errors.New(text)
	}
	return nil
}

// changed are the conditions of now that former does not have, without the time
// at which they changed.
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

func (w *world) cleanedUp(*v1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	after, ok := w.step.Cleanup()
	return ok && w.waited >= after
}

// NodeEvent implements Recorder.
func (w *world) NodeEvent(eventType, reason, message string) {
	w.event(Event{Kind: kindNode, UID: w.nodeName, Name: w.nodeName, Type: eventType, Reason: reason, Message: message})
}

// PodEvent implements Recorder.
func (w *world) PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	w.event(Event{Kind: kindPod, UID: string(pod.UID), Name: pod.Name, Type: eventType, Reason: reason, Message: message, Annotations: annotations})
}

func (w *world) event(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}
