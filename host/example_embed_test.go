package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/eviction"
)

// What a kubelet has already, in its own words. The types below that begin a name
// of another package (record, lifecycle, stats) stand for the one there.
type (
	recordEventRecorder interface {
		AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, messageFmt string, args ...any)
	}
	lifecyclePodAdmitAttributes struct{ Pod *v1.Pod }
	lifecyclePodAdmitResult     struct {
		Admit           bool
		Reason, Message string
	}
	lifecyclePredicateFailureReason    interface{ GetReason() string }
	lifecycleInsufficientResourceError struct {
		ResourceName              v1.ResourceName
		Requested, Used, Capacity int64
	}
	statsSummaryProvider interface {
		Get(ctx context.Context, updateStats bool) (*statsSummary, error)
	}
	statsSummary struct{}

	kubelet struct {
		nodeRef         *v1.ObjectReference
		recorder        recordEventRecorder
		podWorkers      podWorkers
		summaryProvider statsSummaryProvider
		diskInfo        host.DiskInfoProvider

		getAllocatedPods func() []*v1.Pod
		podIsFinished    func(*v1.Pod) bool
		deleteContainers func(context.Context) error // containerGC.DeleteAllUnusedContainers
		deleteImages     func(context.Context) error // imageManager.DeleteUnusedImages
	}
	podWorkers interface {
		// Kill has the pod's worker end it by the shortest grace period that it was
		// ever given, call each statusFn on the pod's status, and then close done.
		Kill(pod *v1.Pod, isEvicted bool, gracePeriodOverride *int64, statusFn func(*v1.PodStatus), done chan<- struct{})
	}
)

func (e *lifecycleInsufficientResourceError) GetReason() string {
	return fmt.Sprintf("Insufficient %v", e.ResourceName)
}

func (e *lifecycleInsufficientResourceError) GetInsufficientAmount() int64 {
	return e.Requested - (e.Capacity - e.Used)
}

// killPodNow returns when the pod is dead, or too late for that.
func (k *kubelet) killPodNow(pod *v1.Pod, isEvicted bool, gracePeriodOverride *int64, statusFn func(*v1.PodStatus)) error {
	var seconds int64
	switch {
	case gracePeriodOverride != nil:
		seconds = *gracePeriodOverride
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	done := make(chan struct{})
	k.podWorkers.Kill(pod, isEvicted, gracePeriodOverride, statusFn, done)
	select {
	case <-done:
		return nil
	case <-time.After(time.Duration(max(10, seconds+seconds/2)) * time.Second):
		return errors.New("timeout waiting to kill pod")
	}
}

// Everything from here on is what embedding evictd takes.

// events gives the manager's events to the kubelet's recorder.
type events struct {
	to   recordEventRecorder
	node *v1.ObjectReference
}

func (e events) NodeEvent(eventType, reason, message string) {
	e.to.AnnotatedEventf(e.node, nil, eventType, reason, "%s", message)
}

func (e events) PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	e.to.AnnotatedEventf(pod, annotations, eventType, reason, "%s", message)
}

// admission is a lifecycle.PodAdmitHandler and a lifecycle.AdmissionFailureHandler.
type admission struct{ manager *host.Embedded }

func (a admission) Admit(attrs *lifecyclePodAdmitAttributes) lifecyclePodAdmitResult {
	return lifecyclePodAdmitResult(a.manager.Admit(attrs.Pod))
}

// shortage makes the kubelet's reason one that the manager can do something about.
type shortage struct {
	*lifecycleInsufficientResourceError
}

func (s shortage) GetResourceName() v1.ResourceName { return s.ResourceName }

func (a admission) HandleAdmissionFailure(ctx context.Context, pod *v1.Pod, reasons []lifecyclePredicateFailureReason) ([]lifecyclePredicateFailureReason, error) {
	reported := make([]host.FailureReason, 0, len(reasons))
	for _, r := range reasons {
		if e, ok := r.(*lifecycleInsufficientResourceError); ok {
			reported = append(reported, shortage{e})
		} else {
			reported = append(reported, r)
		}
	}
	left, err := a.manager.HandleAdmissionFailure(ctx, pod, reported)
	reasons = nil
	for _, r := range left {
		if s, ok := r.(shortage); ok {
			reasons = append(reasons, s.lifecycleInsufficientResourceError)
		} else {
			reasons = append(reasons, r)
		}
	}
	return reasons, err
}

// newEvictionManager stands in for eviction.NewManager and for
// preemption.NewCriticalPodAdmissionHandler. Without plugins, such as those that
// package memory of plugins/ makes, the ones in config.PluginDir run, each as a
// process.
func newEvictionManager(k *kubelet, config host.Config, plugins map[string]eviction.Plugin, log *slog.Logger) (*host.Embedded, admission, error) {
	manager, err := host.NewEmbedded(host.Embedding{
		Config:   config,
		Version:  "v1.36.3+evictd",
		Log:      log,
		KillPod:  k.killPodNow,
		Recorder: events{to: k.recorder, node: k.nodeRef},
		Summary: func(ctx context.Context) ([]byte, error) {
			summary, err := k.summaryProvider.Get(ctx, true)
			if err != nil {
				return nil, err
			}
			return json.Marshal(summary)
		},
		Reclaim: map[string]host.ReclaimFunc{"container-gc": k.deleteContainers, "image-gc": k.deleteImages},
		Plugins: plugins,
	})
	return manager, admission{manager}, err
}

// A kubelet with evictd's eviction manager in place of its own.
func Example_embedding() {
	k := &kubelet{ /* as it is */ }
	config := host.DefaultConfig()
	config.RunDir = "/run/kubelet/evictd"
	config.EvictionHard = map[string]string{"memory.available": "500Mi", "nodefs.available": "10%"}
	config.Pacing, config.Layout = "kubelet", "kubelet" // as patient and as trusting as the kubelet

	manager, handler, err := newEvictionManager(k, config, nil, slog.Default())
	if err != nil {
		slog.Error("no eviction manager", "error", err)
		return
	}
	// In place of the handlers that NewMainKubelet adds.
	_, _ = handler.Admit, handler.HandleAdmissionFailure

	// In place of evictionManager.Start in initializeRuntimeDependentModules.
	ctx, stop := context.WithCancel(context.Background())
	if err := manager.Start(ctx, k.diskInfo, k.getAllocatedPods, k.podIsFinished, 10*time.Second); err != nil {
		slog.Error("eviction manager not started", "error", err)
		stop()
		return
	}

	// For nodestatus.MemoryPressureCondition and its siblings.
	pressure := map[v1.NodeConditionType]func() bool{
		v1.NodeMemoryPressure: manager.IsUnderMemoryPressure,
		v1.NodeDiskPressure:   manager.IsUnderDiskPressure,
		v1.NodePIDPressure:    manager.IsUnderPIDPressure,
	}
	for condition, under := range pressure {
		slog.Info("node condition", "type", condition, "status", under())
	}

	// A kubelet never ends; other programs wait for kills in flight and plugins.
	stop()
	if err := manager.Wait(); err != nil {
		slog.Error("eviction manager ended", "error", err)
	}
}
