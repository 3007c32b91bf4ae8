package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/eviction"
)

// A dropIn is a manager in place of another program's, and all that it is given and receives.
type dropIn struct {
	host.Embedding
	reported

	active []*v1.Pod
	disks  host.DiskInfoProvider
	counts []string
}

func (d *dropIn) Evicted(s eviction.Signal) { d.counts = append(d.counts, "evicted "+string(s)) }

func (d *dropIn) StatsAge(s eviction.Signal, age time.Duration) {
	d.counts = append(d.counts, fmt.Sprintf("age of %s: %v", s, age > 0))
}

func (d *dropIn) Preempted(resource string) { d.counts = append(d.counts, "preempted "+resource) }

// newDropIn has plugins of a name each in this process, and makes passes when it is asked to.
func newDropIn(t *testing.T, plugins ...eviction.Plugin) *dropIn {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &dropIn{}
	d.Config = host.DefaultConfig()
	d.Config.RunDir, d.Config.PluginDir, d.Config.LocalStorageCapacityIsolation = dir, "", false
	d.Log, d.KillPod, d.Recorder, d.Metrics = slog.New(slog.DiscardHandler), d.kill, d, d
	d.Plugins = map[string]eviction.Plugin{}
	for _, p := range plugins {
		d.Plugins[p.Name] = p
	}
	for _, name := range []string{"small", "largest", "large"} {
		p := newPod(name, "")
		p.UID = types.UID("uid-" + name)
		d.active = append(d.active, p)
	}
	return d
}

// start starts it until the end of the test.
func (d *dropIn) start(t *testing.T) *host.Embedded {
	t.Helper()
	manager, err := host.NewEmbedded(d.Embedding)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		if err := manager.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err := manager.Start(ctx, d.disks, func() []*v1.Pod { return d.active }, func(*v1.Pod) bool { return true }, 0); err != nil {
		t.Fatal(err)
	}
	return manager
}

// low returns a plugin of the program's own by which a signal is low, and that measures pods by
// the length of their names, in what their containers use.
func low(name string, s eviction.Signal) eviction.Plugin {
	f := &figures{s, 100}
	return eviction.Plugin{Name: name, Observer: f, Measurer: f, Signals: []eviction.SignalSpec{{Signal: s}}}
}

type figures struct {
	signal    eviction.Signal
	available int64
}

func (f *figures) Observe(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return eviction.ObserveReply{Observations: []eviction.Observation{{
		Signal: f.signal, State: eviction.Observed, Available: f.available, Capacity: 1000, Time: time.Now().Add(-time.Second),
	}}}, nil
}

func (f *figures) Measure(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	for _, p := range r.Pods {
		used := int64(len(p.Name))
		m := eviction.Measurement{UID: p.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: f.signal, Value: used}}}
		for _, c := range p.Containers {
			m.Containers = append(m.Containers, eviction.ContainerMeasurement{Name: c.Name, WorkingSetBytes: eviction.Some(used)})
		}
		emit(m)
	}
	return nil
}

// The kubelet's metrics stayed empty when evictd evicted for it.
func TestAProgramsOwnMetricsCountEvictions(t *testing.T) {
	d := newDropIn(t, low("memory", eviction.MemoryAvailable))
	d.Config.EvictionHard = map[string]string{"memory.available": "50%"}
	if _, err := d.start(t).Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"age of memory.available: true", "evicted memory.available"}, d.counts); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// A kubelet has its thresholds parsed already, and could hand them over as text only.
func TestThresholdsAsValues(t *testing.T) {
	for name, c := range map[string]struct {
		threshold host.Threshold
		evicts    bool
	}{
		"an amount that is not reached": {host.Threshold{Value: host.ThresholdValue{Quantity: resource.NewQuantity(100, resource.DecimalSI)}}, false},
		"an amount":                     {host.Threshold{Value: host.ThresholdValue{Quantity: resource.NewQuantity(101, resource.DecimalSI)}}, true},
		"a part that is not reached":    {host.Threshold{Value: host.ThresholdValue{Percentage: 0.1}}, false},
		"a part":                        {host.Threshold{Value: host.ThresholdValue{Percentage: 0.11}}, true},
		"a soft one":                    {host.Threshold{Value: host.ThresholdValue{Percentage: 0.11}, GracePeriod: time.Hour}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDropIn(t, low("pid", eviction.PIDAvailable))
			d.Config.EvictionHard = map[string]string{"pid.available": "90%"} // it would be met
			c.threshold.Signal = eviction.PIDAvailable
			d.Thresholds = []host.Threshold{c.threshold}
			pass, err := d.start(t).Synchronize(t.Context())
			if err != nil || len(pass.Evicted) > 0 != c.evicts {
				t.Errorf("evicted %v, %v, want evictions %v", pass.Evicted, err, c.evicts)
			}
		})
	}
}

// Min reclaim given as a value was left out of what must be available again.
func TestMinReclaimAsAValue(t *testing.T) {
	f := &figures{eviction.PIDAvailable, 100}
	d := newDropIn(t, eviction.Plugin{Name: "pid", Observer: f, Measurer: f, Signals: []eviction.SignalSpec{{Signal: f.signal}}})
	d.Config.Pacing = "kubelet"
	d.Thresholds = []host.Threshold{{
		Signal: eviction.PIDAvailable, Value: host.ThresholdValue{Quantity: resource.NewQuantity(101, resource.DecimalSI)},
		MinReclaim: &host.ThresholdValue{Quantity: resource.NewQuantity(50, resource.DecimalSI)},
	}}
	manager := d.start(t)
	for _, step := range []struct {
		available int64
		evicted   int
	}{{100, 1}, {150, 1}, {151, 0}} {
		f.available = step.available
		pass, err := manager.Synchronize(t.Context())
		if err != nil || len(pass.Evicted) != step.evicted {
			t.Errorf("with %d available: evicted %v, %v, want %d", step.available, pass.Evicted, err, step.evicted)
		}
	}
}

// A typing error in a setting that a program makes, and not a file, was taken for the default.
func TestASettingThatIsNoneIsRefused(t *testing.T) {
	d := newDropIn(t)
	d.Config.Pacing = "Kubelet"
	if _, err := host.NewEmbedded(d.Embedding); err == nil || !strings.Contains(err.Error(), `pacing: "Kubelet"`) {
		t.Errorf("%v, want the pacing refused", err)
	}
}

func TestAThresholdOfAnUnknownSignalIsRefused(t *testing.T) {
	d := newDropIn(t)
	d.Thresholds = []host.Threshold{{Signal: "gpu.available"}}
	_, err := host.NewEmbedded(d.Embedding)
	if err == nil || !strings.Contains(err.Error(), `Thresholds[0].Signal: "gpu.available"`) {
		t.Errorf("%v, want the signal refused", err)
	}
}

// Signals of vendors have thresholds in evictd's own file alone.
func TestThresholdsOfCustomSignalsHoldBesideValues(t *testing.T) {
	d := newDropIn(t, (&drive{available: 1}).plugin())
	d.Config.EvictionHard, d.Thresholds = map[string]string{string(spare): "10%"}, []host.Threshold{}
	pass, err := d.start(t).Synchronize(t.Context())
	if err != nil || len(pass.Evicted) != 1 || pass.Evicted[0].Signal != spare {
		t.Errorf("evicted %v, %v, want one for %s", pass.Evicted, err, spare)
	}
}

// The message of an eviction lacked what the containers used, and its annotations were empty.
func TestAnEvictionNamesContainersByThePodsStatus(t *testing.T) {
	d := newDropIn(t, low("memory", eviction.MemoryAvailable))
	d.Config.EvictionHard = map[string]string{"memory.available": "50%"}
	for _, p := range d.active {
		p.Spec.Containers[0].Name = "web"
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "web", ContainerID: "containerd://0815", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	}
	if _, err := d.start(t).Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "Container web was using 7, request is 0, has larger consumption of memory. "; !strings.HasSuffix(d.status.Message, want) {
		t.Errorf("message %q, want %q at its end", d.status.Message, want)
	}
	if len(d.notes) != 1 || d.notes[0]["offending_containers"] != "web" || d.notes[0]["offending_containers_usage"] != "7" {
		t.Errorf("annotations %v", d.notes)
	}
}

var errNoLabel = errors.New("no label of images")

// unlabelled knows no filesystem of images, and says so as a disk plugin too.
type unlabelled struct{ *figures }

func (unlabelled) HasDedicatedImageFs(context.Context) (bool, error) {
	return false, fmt.Errorf("cadvisor: %w", errNoLabel)
}

func (unlabelled) HasDedicatedContainerFs(context.Context) (bool, error) { return false, nil }

func (u unlabelled) Observe(ctx context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	reply, err := u.figures.Observe(ctx, r)
	_, why := u.HasDedicatedImageFs(ctx)
	reply.Layout = &eviction.LayoutReport{ImageFsErr: why.Error()}
	return reply, err
}

// The text of a DiskInfoProvider's error was kept, not the error.
func TestTheErrorOfADiskInfoProviderIsKept(t *testing.T) {
	u := unlabelled{&figures{eviction.NodeFsAvailable, 100}}
	d := newDropIn(t, eviction.Plugin{Name: "disk", OwnsLayout: true, Observer: u, Measurer: u, Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable}}})
	d.Config.EvictionHard, d.Config.Layout = map[string]string{"nodefs.available": "50%"}, "kubelet"
	d.Summary, d.disks = func(context.Context) ([]byte, error) { return []byte("{}"), nil }, u
	_, err := d.start(t).Synchronize(t.Context())
	if !errors.Is(err, errNoLabel) || err.Error() != "eviction manager: failed to get HasDedicatedImageFs: cadvisor: no label of images" {
		t.Errorf("%v, want the provider's error", err)
	}
}

// A program with some plugins of its own went without the signals of those that it had not.
func TestASignalWhosePluginIsNotInsideIsReadByTheHost(t *testing.T) {
	for name, dir := range map[string]func(*testing.T) string{
		"no directory of plugins": func(*testing.T) string { return "" },
		"a directory that is not there": func(t *testing.T) string {
			return filepath.Join(t.TempDir(), "plugins")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			victim := evictedFrom(t, func(e *host.Embedding) {
				e.Plugins, e.Config.PluginDir = map[string]eviction.Plugin{"pid": low("pid", eviction.PIDAvailable)}, dir(t)
			})
			select {
			case got := <-victim:
				if got != "big" {
					t.Errorf("%s was evicted, want the one that uses most", got)
				}
			case <-time.After(20 * time.Second):
				t.Error("nobody was evicted")
			}
		})
	}
}

// A kubelet's handler for critical pods is made apart from its manager, before it.
func TestPreemptionWithoutAManager(t *testing.T) {
	d := newDropIn(t)
	d.active[0].Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("5Mi")}
	killed := ""
	p := &host.Preemption{
		Pods: func() []*v1.Pod { return d.active }, Recorder: d, Log: d.Log, Metrics: d,
		KillPod: func(pod *v1.Pod, _ bool, _ *int64, _ func(*v1.PodStatus)) error { killed = pod.Name; return nil },
	}
	left, err := p.HandleAdmissionFailure(t.Context(), static(newPod("proxy", "")), []host.FailureReason{
		shortage{&lifecycleInsufficientResourceError{ResourceName: v1.ResourceMemory, Requested: 5 << 20}},
	})
	if err != nil || len(left) > 0 || killed != "small" || !slices.Equal(d.counts, []string{"preempted memory"}) {
		t.Errorf("left %v, %v, killed %q, counted %q", left, err, killed, d.counts)
	}
}

// What a program keeps of conditions itself is enough to say who may start.
func TestAdmissionWithoutAManager(t *testing.T) {
	config := host.DefaultConfig()
	if got := host.Admit(newPod("new", ""), []eviction.Condition{eviction.DiskPressure}, &config); got.Admit || got.Reason != "Evicted" {
		t.Errorf("under disk pressure: %+v", got)
	}
	if got := host.Admit(newPod("new", "1Mi"), []eviction.Condition{eviction.MemoryPressure}, &config); !got.Admit {
		t.Errorf("burstable under memory pressure: %+v", got)
	}
}
