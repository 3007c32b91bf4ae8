package adapter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evictd/evictd/host"
)

// The file of evictd is read once, so that it is the same for all tests.
func TestMain(m *testing.M) {
	if os.Getenv(envAsk) != "" {
		answer()
		return
	}
	os.Exit(configured(m))
}

func configured(m *testing.M) int {
	dir, err := os.MkdirTemp("", "evictd")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "evictd.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "source: summary\npluginDir: %[1]s/plugins\nstateDir: %[1]s/state\n", dir), 0o600); err != nil {
		panic(err)
	}
	os.Setenv(EnvConfig, file)
	os.Unsetenv(EnvMode)
	return m.Run()
}

// A node fakes the environment of a kubelet's eviction manager.
type node struct {
	*clocktesting.FakeClock
	available uint64
	pods      []*v1.Pod
	killed    []string
	split     bool
	simulated bool
	slow      time.Duration // is how long its summary takes
}

func newNode() *node {
	return &node{FakeClock: clocktesting.NewFakeClock(time.Now()), available: 1 << 30, simulated: true, pods: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid-web"}}}}
}

func (n *node) Get(context.Context, bool) (*statsapi.Summary, error) {
	time.Sleep(n.slow)
	return &statsapi.Summary{Node: statsapi.NodeStats{Memory: &statsapi.MemoryStats{AvailableBytes: &n.available, WorkingSetBytes: new(uint64(1 << 30))}}}, nil
}

func (n *node) GetCPUAndMemoryStats(ctx context.Context) (*statsapi.Summary, error) {
	return n.Get(ctx, false)
}

func (*node) DeleteUnusedImages(context.Context) error                { return nil }
func (*node) DeleteAllUnusedContainers(context.Context) error         { return nil }
func (*node) HasDedicatedImageFs(context.Context) (bool, error)       { return false, nil }
func (n *node) HasDedicatedContainerFs(context.Context) (bool, error) { return n.split, nil }

func (n *node) kill(pod *v1.Pod, _ bool, _ *int64, _ func(*v1.PodStatus)) error {
	n.killed = append(n.killed, pod.Name)
	return nil
}

// start has evictd evict for n when 512 Mi are not available.
func (n *node) start(t *testing.T) *Manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	half := resource.MustParse("512Mi")
	m, err := New(Kubelet{
		Summary: n, KillPod: n.kill, ImageGC: n, ContainerGC: n, Recorder: &record.FakeRecorder{}, NodeRef: &v1.ObjectReference{Name: "n1"}, Clock: n,
		PressureTransitionPeriod: 4 * time.Minute, Simulated: n.simulated, RunDir: dir,
		Thresholds: []evictionapi.Threshold{{Signal: evictionapi.SignalMemoryAvailable, Value: evictionapi.ThresholdValue{Quantity: &half}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := m.Start(ctx, n, func() []*v1.Pod { return n.pods }, func(*v1.Pod) bool { return true }, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := errors.Join(m.Wait(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (n *node) synchronize(t *testing.T, m *Manager) []*v1.Pod {
	t.Helper()
	evicted, err := m.Synchronize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return evicted
}

// The kubelet's own tests do not tell a transition period from half of it.
func TestAConditionOutlastsItsPressureForTheTransitionPeriod(t *testing.T) {
	n := newNode()
	m := n.start(t)
	best := &lifecycle.PodAdmitAttributes{Pod: &v1.Pod{}}
	if n.synchronize(t, m); m.IsUnderMemoryPressure() || !m.Admit(best).Admit {
		t.Fatal("under memory pressure with enough of it")
	}
	n.available = 1 << 28
	if evicted := n.synchronize(t, m); len(evicted) != 1 || evicted[0] != n.pods[0] || !m.IsUnderMemoryPressure() || m.Admit(best).Admit {
		t.Fatalf("evicted %v, want the pod itself, and memory pressure", evicted)
	}
	n.available = 1 << 30
	n.synchronize(t, m)
	n.Step(3 * time.Minute)
	if n.synchronize(t, m); !m.IsUnderMemoryPressure() {
		t.Error("no memory pressure any more after 3 of 4 minutes")
	}
	n.Step(2 * time.Minute)
	if n.synchronize(t, m); m.IsUnderMemoryPressure() {
		t.Error("memory pressure after 5 of 4 minutes")
	}
	if m.IsUnderDiskPressure() || m.IsUnderPIDPressure() {
		t.Error("under another pressure than that of memory")
	}
}

// The summary of a node with many pods took longer than a plugin may, was thrown away each time,
// and nobody was ever evicted.
func TestASlowSummaryIsWaitedFor(t *testing.T) {
	n := newNode()
	n.available, n.simulated, n.slow = 1<<28, false, 1200*time.Millisecond
	if evicted := n.synchronize(t, n.start(t)); len(evicted) != 1 {
		t.Errorf("evicted %v, want one", evicted)
	}
}

// kubelet_evictions and its like stayed empty.
func TestTheKubeletsMetricsCount(t *testing.T) {
	legacyregistry.MustRegister(metrics.Evictions, metrics.EvictionStatsAge, metrics.Preemptions)
	n := newNode()
	n.available = 1 << 28
	n.synchronize(t, n.start(t))
	critical := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/config.source": "file"}}}
	left, err := Preemption{Pods: func() []*v1.Pod { return n.pods }, KillPod: n.kill, Recorder: &record.FakeRecorder{}}.HandleAdmissionFailure(
		t.Context(), critical, []lifecycle.PredicateFailureReason{&lifecycle.InsufficientResourceError{ResourceName: v1.ResourcePods, Requested: 1}})
	if err != nil || len(left) > 0 {
		t.Errorf("preemption: %v, left %v", err, left)
	}
	for name, c := range map[string]struct {
		of    func(...string) (float64, error)
		label string
	}{
		"kubelet_evictions": {func(l ...string) (float64, error) {
			return testutil.GetCounterMetricValue(metrics.Evictions.WithLabelValues(l...))
		}, "memory.available"},
		"kubelet_preemptions": {func(l ...string) (float64, error) {
			return testutil.GetCounterMetricValue(metrics.Preemptions.WithLabelValues(l...))
		}, "pods"},
	} {
		if got, err := c.of(c.label); err != nil || got != 1 {
			t.Errorf("%s{%q}: %v, %v, want 1", name, c.label, got, err)
		}
	}
	if len(n.killed) != 2 {
		t.Errorf("killed %q, want the pod twice: evicted and preempted", n.killed)
	}
}

func TestReasonsThatAreLeftAreTheKubeletsOwn(t *testing.T) {
	lacks := []lifecycle.PredicateFailureReason{&lifecycle.InsufficientResourceError{ResourceName: v1.ResourceCPU}, &lifecycle.PredicateFailureError{PredicateName: "NodeAffinity"}}
	left, err := Preemption{Recorder: &record.FakeRecorder{}}.HandleAdmissionFailure(t.Context(), &v1.Pod{}, lacks)
	if err != nil || len(left) != 2 || left[0] != lacks[0] || left[1] != lacks[1] {
		t.Errorf("left %v, %v, want what was given", left, err)
	}
}

func TestWhereTheCgroupsOfPodsAre(t *testing.T) {
	for root, want := range map[string]struct{ root, driver string }{
		"/kubepods":                             {"/", "cgroupfs"},
		"kubepods":                              {"/", "cgroupfs"},
		"/node/kubepods":                        {"/node", "cgroupfs"},
		"/kubepods.slice":                       {"/", "systemd"},
		"/node.slice/node-kubepods.slice":       {"/node", "systemd"},
		"/a.slice/a-b.slice/a-b-kubepods.slice": {"/a/b", "systemd"},
		"/":                                     {"/as-configured", ""}, // without cgroups for classes of pods
		"":                                      {"/as-configured", ""},
	} {
		c := host.Config{CgroupRoot: "/as-configured"}
		if inCgroup(&c, root); c.CgroupRoot != want.root || c.CgroupDriver != want.driver {
			t.Errorf("%q: %s, %s, want %v", root, c.CgroupRoot, c.CgroupDriver, want)
		}
	}
}
