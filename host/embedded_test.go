package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/eviction"
)

// A smallNode stands in for the kubelet around the example: figures, one filesystem, pods that
// die when asked to.
type smallNode struct {
	mu        sync.Mutex
	available map[eviction.Signal]int64
	pods      []*v1.Pod
	did       []string
	died      map[string]v1.PodStatus
	// onEvent and onKill, if not nil, are called from within a pass.
	onEvent, onKill func()
	stop            func()
	// stopped: the manager is stopped before it begins.
	stopped bool
	config  host.Config
}

func (n *smallNode) Observe(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var reply eviction.ObserveReply
	for s, available := range n.available {
		reply.Observations = append(reply.Observations, eviction.Observation{Signal: s, State: eviction.Observed, Available: available, Capacity: 100 << 20, Time: time.Now()})
	}
	return reply, nil
}

func (n *smallNode) set(s eviction.Signal, available int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.available[s] = available
}

func (n *smallNode) HasDedicatedImageFs(context.Context) (bool, error)     { return false, nil }
func (n *smallNode) HasDedicatedContainerFs(context.Context) (bool, error) { return false, nil }

func (n *smallNode) Get(context.Context, bool) (*statsSummary, error) { return &statsSummary{}, nil }

func (n *smallNode) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, messageFmt string, args ...any) {
	if n.onEvent != nil {
		n.onEvent()
	}
	name := "node"
	if pod, ok := object.(*v1.Pod); ok {
		name = pod.Name
	}
	n.note(fmt.Sprintf("%s: %s %s %s", name, eventType, reason, fmt.Sprintf(messageFmt, args...)))
}

func (n *smallNode) Kill(pod *v1.Pod, _ bool, _ *int64, statusFn func(*v1.PodStatus), done chan<- struct{}) {
	n.note("kill " + pod.Name)
	if n.onKill != nil {
		n.onKill()
	}
	status := pod.Status.DeepCopy()
	statusFn(status)
	n.died[pod.Name] = *status
	close(done)
}

func (n *smallNode) note(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.did = append(n.did, what)
}

// startKubelet starts a kubelet of the example whose manager makes the passes that
// the test asks for.
func startKubelet(t *testing.T, n *smallNode, gates map[string]bool) (*host.Embedded, admission) {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := host.DefaultConfig()
	config.RunDir, config.PluginDir, config.FeatureGates = dir, "", gates
	config.EvictionHard = map[string]string{"memory.available": "10Mi", "nodefs.available": "10Mi"}
	n.config = config
	k := &kubelet{
		nodeRef: &v1.ObjectReference{Kind: "Node", Name: "n1"}, recorder: n, podWorkers: n, summaryProvider: n,
		deleteContainers: func(context.Context) error { return nil }, deleteImages: func(context.Context) error { return nil },
	}
	manager, handler, err := newEvictionManager(k, config, map[string]eviction.Plugin{"figures": {
		Name: "figures", Observer: n,
		Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}, {Signal: eviction.NodeFsAvailable}},
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	n.stop = stop
	if n.stopped {
		stop()
	}
	active := func() []*v1.Pod { return slices.Clone(n.pods) }
	err = manager.Start(ctx, n, active, func(*v1.Pod) bool { return true }, 0)
	if err != nil && (!n.stopped || !errors.Is(err, context.Canceled)) {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := manager.Wait(); err != nil {
			t.Error(err)
		}
	})
	return manager, handler
}

func newPod(name, memory string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{}}}}
	if memory != "" {
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
	}
	return pod
}

func static(pod *v1.Pod) *v1.Pod {
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	return pod
}

func TestAdmissionFollowsTheLastPass(t *testing.T) {
	n := &smallNode{available: map[eviction.Signal]int64{eviction.MemoryAvailable: 50 << 20, eviction.NodeFsAvailable: 50 << 20}}
	manager, handler := startKubelet(t, n, nil)
	patient := newPod("patient", "")
	patient.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists}}
	recorded := newPod("recorded", "1Mi")
	recorded.Status.QOSClass = v1.PodQOSBestEffort
	pods := []*v1.Pod{newPod("best-effort", ""), patient, newPod("burstable", "1Mi"), recorded, static(newPod("static", ""))}

	const memory, both = "The node had condition: [MemoryPressure]. ", "The node had condition: [DiskPressure MemoryPressure]. "
	for _, step := range []struct {
		what         string
		memory, disk int64
		rejected     map[string]string
	}{
		{"before any pressure", 50, 50, map[string]string{}},
		{"memory is low", 5, 50, map[string]string{"best-effort": memory, "recorded": memory}},
		{"the disk is full as well", 5, 5, map[string]string{"best-effort": both, "patient": both, "burstable": both, "recorded": both}},
		{"conditions outlast the pressure", 50, 50, map[string]string{"best-effort": both, "patient": both, "burstable": both, "recorded": both}},
	} {
		n.set(eviction.MemoryAvailable, step.memory<<20)
		n.set(eviction.NodeFsAvailable, step.disk<<20)
		if _, err := manager.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
		rejected := map[string]string{}
		for _, pod := range pods {
			if a := handler.Admit(&lifecyclePodAdmitAttributes{Pod: pod}); !a.Admit {
				if a.Reason != "Evicted" {
					t.Errorf("%s: %s is rejected for %q", step.what, pod.Name, a.Reason)
				}
				rejected[pod.Name] = a.Message
			}
		}
		if diff := cmp.Diff(step.rejected, rejected); diff != "" {
			t.Errorf("%s: rejected pods (-want +got):\n%s", step.what, diff)
		}
	}
}

func TestEmbeddedPreemption(t *testing.T) {
	n := &smallNode{pods: []*v1.Pod{newPod("small", "1Mi"), newPod("large", "5Mi")}, died: map[string]v1.PodStatus{}}
	_, handler := startKubelet(t, n, nil)
	lacks := []lifecyclePredicateFailureReason{&lifecycleInsufficientResourceError{ResourceName: v1.ResourceMemory, Requested: 10 << 20, Used: 96 << 20, Capacity: 100 << 20}}

	left, err := handler.HandleAdmissionFailure(t.Context(), newPod("new", "10Mi"), lacks)
	if err != nil || len(left) != 1 || left[0] != lacks[0] {
		t.Errorf("a pod that is not critical: %v, %v, want the kubelet's own reason back", left, err)
	}
	if left, err := handler.HandleAdmissionFailure(t.Context(), static(newPod("proxy", "10Mi")), lacks); err != nil || len(left) > 0 {
		t.Errorf("a critical pod: %v, %v, want it to be admitted", left, err)
	}
	const message = "Warning Preempting Preempted in order to admit critical pod"
	if diff := cmp.Diff([]string{"large: " + message, "kill large", "small: " + message, "kill small"}, n.did); diff != "" {
		t.Errorf("what happened (-want +got):\n%s", diff)
	}
	if s := n.died["large"]; s.Phase != v1.PodFailed || s.Reason != "Preempting" {
		t.Errorf("status of the victim is %s, %s", s.Phase, s.Reason)
	}
}

// With the gate off, the kubelet counts what containers request.
func TestPreemptionWithoutResourcesAtPodLevel(t *testing.T) {
	whole := newPod("whole", "1Mi")
	whole.Spec.Containers[0].Resources.Requests["acme.example/gpu"] = resource.MustParse("1")
	whole.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("5Mi")}}
	lacks := []lifecyclePredicateFailureReason{&lifecycleInsufficientResourceError{ResourceName: "acme.example/gpu", Requested: 1, Capacity: 0}}
	for on, want := range map[bool]int{true: 0, false: 1} {
		n := &smallNode{pods: []*v1.Pod{whole}, died: map[string]v1.PodStatus{}}
		_, handler := startKubelet(t, n, map[string]bool{"PodLevelResources": on})
		_, err := handler.HandleAdmissionFailure(t.Context(), static(newPod("proxy", "")), lacks)
		if len(n.died) != want || (err == nil) != (want == 1) {
			t.Errorf("gate %v: %d victims, %v, want %d", on, len(n.died), err, want)
		}
	}
}
