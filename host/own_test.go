package host_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	spare        eviction.Signal    = "acme.example/nvme.spare"
	nvmePressure eviction.Condition = "acme.example/NVMePressure"
)

// drive is a plugin in this process that brings a signal of its own.
type drive struct{ available int64 }

func (d *drive) plugin() eviction.Plugin {
	return eviction.Plugin{Name: "nvme", Observer: d, Measurer: d, Signals: []eviction.SignalSpec{{
		Signal: spare,
		Definition: &eviction.Definition{
			Unit: "blocks", Format: eviction.FormatDecimalSI, Resource: "acme.example/nvme-spare", Condition: nvmePressure,
		},
	}}}
}

func (d *drive) Observe(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return eviction.ObserveReply{Observations: []eviction.Observation{{
		Signal: spare, State: eviction.Observed, Available: d.available, Capacity: 10_000, Time: time.Now(),
	}}}, nil
}

// Measure has the pods use more the longer their names are.
func (d *drive) Measure(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	for _, p := range r.Pods {
		emit(eviction.Measurement{UID: p.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: spare, Value: int64(len(p.Name))}}})
	}
	return nil
}

// reported records the calls that an embedding program receives.
type reported struct {
	events  []string
	notes   []map[string]string
	killed  string
	seconds int64
	status  v1.PodStatus
}

func (r *reported) NodeEvent(eventType, reason, message string) {
	r.events = append(r.events, "node: "+eventType+" "+reason+" "+message)
}

func (r *reported) PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	r.events, r.notes = append(r.events, pod.Name+": "+eventType+" "+reason+" "+message), append(r.notes, annotations)
}

func (r *reported) kill(pod *v1.Pod, _ bool, grace *int64, statusFn func(*v1.PodStatus)) error {
	r.killed, r.seconds = pod.Name, *grace
	statusFn(&r.status)
	return nil
}

func TestAnOwnSignalInAnEmbeddedManager(t *testing.T) {
	dir, err := os.MkdirTemp("", "evictd") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := host.DefaultConfig()
	config.RunDir, config.PluginDir, config.EvictionHard, config.RequiredSignals = dir, "", map[string]string{string(spare): "10%"}, []string{string(spare)}
	config.LocalStorageCapacityIsolation = false
	d, r := &drive{available: 5000}, &reported{}
	manager, err := host.NewEmbedded(host.Embedding{
		Config: config, Log: slog.New(slog.DiscardHandler), KillPod: r.kill, Recorder: r, Plugins: map[string]eviction.Plugin{"nvme": d.plugin()},
	})
	if err != nil {
		t.Fatal(err)
	}
	pods := []*v1.Pod{newPod("small", ""), newPod("largest", ""), newPod("large", "")}
	for _, p := range pods {
		p.UID = types.UID("uid-" + p.Name)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer func() {
		stop()
		if err := manager.Wait(); err != nil {
			t.Error(err)
		}
	}()
	if err := manager.Start(ctx, nil, func() []*v1.Pod { return pods }, func(*v1.Pod) bool { return true }, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := manager.Synchronize(t.Context()); err != nil || len(manager.Conditions()) != 0 || !manager.Admit(newPod("new", "1Mi")).Admit {
		t.Errorf("quiet: %v, conditions %v", err, manager.Conditions())
	}
	if why := manager.Status().NotReady; why != "" {
		t.Errorf("not ready: %s", why)
	}
	d.available = 999
	pass, err := manager.Synchronize(t.Context())
	if err != nil || len(pass.Evicted) != 1 || pass.Evicted[0].Signal != spare {
		t.Fatalf("pass %+v, %v, want one eviction", pass, err)
	}
	if acted := pass.Acted(); acted == nil || acted.Custom == nil || acted.Custom.Unit != "blocks" {
		t.Errorf("acted on %+v, want %s in blocks", acted, spare)
	}

	const message = "The node was low on resource: acme.example/nvme-spare. Threshold quantity: 1k, available: 999. "
	if diff := cmp.Diff([]string{
		"node: Warning EvictionThresholdMet Attempting to reclaim acme.example/nvme-spare", "largest: Warning Evicted " + message,
	}, r.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if want := (map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "acme.example/nvme-spare"}); !cmp.Equal(r.notes[0], want) {
		t.Errorf("annotations %v, want %v", r.notes[0], want)
	}
	if r.killed != "largest" || r.seconds != 1 || r.status.Phase != v1.PodFailed || r.status.Reason != "Evicted" || r.status.Message != message {
		t.Errorf("killed %s with %d s and status %+v", r.killed, r.seconds, r.status)
	}
	if c := r.status.Conditions; len(c) != 1 || c[0].Type != v1.DisruptionTarget || c[0].Reason != "TerminationByKubelet" || c[0].Message != message {
		t.Errorf("pod conditions %+v", c)
	}

	if got := manager.Conditions(); !slices.Equal(got, []eviction.Condition{nvmePressure}) {
		t.Errorf("conditions %v", got)
	}
	if manager.IsUnderMemoryPressure() || manager.IsUnderDiskPressure() || manager.IsUnderPIDPressure() {
		t.Error("an own condition is taken for one of the kubelet's")
	}
	for name, pod := range map[string]*v1.Pod{"best effort": newPod("new", ""), "burstable": newPod("new", "1Mi")} {
		want := host.Admission{Reason: "Evicted", Message: "The node had condition: [acme.example/NVMePressure]. "}
		if got := manager.Admit(pod); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if !manager.Admit(static(newPod("proxy", ""))).Admit {
		t.Error("a critical pod is kept out")
	}
	manager.Conditions()[0] = "changed by the caller"
	if got := manager.Conditions(); got[0] != nvmePressure {
		t.Errorf("a caller changed the conditions to %v", got)
	}
}
