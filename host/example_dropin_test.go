package host_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/eviction"
)

// What a program has parsed already it hands over as it is.
func ExampleThreshold() {
	half := resource.MustParse("512Mi")
	thresholds := []host.Threshold{
		{Signal: eviction.MemoryAvailable, Value: host.ThresholdValue{Quantity: &half}},
		{Signal: eviction.NodeFsAvailable, Value: host.ThresholdValue{Percentage: 0.1}, GracePeriod: time.Minute},
	}
	for _, t := range thresholds {
		fmt.Println(t.Signal, t.Value.Quantity, t.Value.Percentage, t.GracePeriod)
	}
	// Output:
	// memory.available 512Mi 0 0s
	// nodefs.available <nil> 0.1 1m0s
}

// Whoever keeps conditions itself asks for an admission without a manager.
func ExampleAdmit() {
	config := host.DefaultConfig()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	a := host.Admit(pod, []eviction.Condition{eviction.DiskPressure}, &config)
	fmt.Println(a.Admit, a.Reason, a.Message)
	// Output: false Evicted The node had condition: [DiskPressure].
}

// silence is a Recorder.
type silence struct{}

func (silence) NodeEvent(_, _, _ string) {}

func (silence) PodEvent(pod *v1.Pod, _ map[string]string, _, reason, _ string) {
	fmt.Println(reason, pod.Name)
}

// missing is a host.InsufficientResource.
type missing v1.ResourceName

func (m missing) GetReason() string                { return "Insufficient " + string(m) }
func (m missing) GetResourceName() v1.ResourceName { return v1.ResourceName(m) }
func (missing) GetInsufficientAmount() int64       { return 1 }

// A kubelet makes its handler for critical pods before its manager, and without it.
func ExamplePreemption() {
	running := []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}}
	critical := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "proxy", Annotations: map[string]string{"kubernetes.io/config.source": "file"}}}
	p := host.Preemption{
		Pods:     func() []*v1.Pod { return running },
		KillPod:  func(*v1.Pod, bool, *int64, func(*v1.PodStatus)) error { return nil },
		Recorder: silence{},
		Log:      slog.New(slog.DiscardHandler),
	}
	left, err := p.HandleAdmissionFailure(context.Background(), critical, []host.FailureReason{missing("pods")})
	fmt.Println(left, err)
	// Output:
	// Preempting batch
	// [] <nil>
}
