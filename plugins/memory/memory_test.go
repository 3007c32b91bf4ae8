package memory

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/leaks"
)

const podUID = "11111111-2222-3333-4444-555555555555"

var both = []eviction.Signal{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable}

// facts describes one of the node trees of shared/nodefs.
func facts(t *testing.T, node string) eviction.NodeFacts {
	t.Helper()
	root, err := filepath.Abs("../../shared/nodefs/testdata/" + node)
	if err != nil {
		t.Fatal(err)
	}
	driver := "cgroupfs"
	if strings.HasSuffix(node, "-systemd") {
		driver = "systemd"
	}
	return eviction.NodeFacts{RootDir: root, CgroupRoot: "/", CgroupDriver: driver}
}

func configured(t *testing.T, node eviction.NodeFacts) sdk.Plugin {
	t.Helper()
	p := New()
	if err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: node}); err != nil {
		t.Fatal(err)
	}
	return p
}

func observeBoth(t *testing.T, p sdk.Plugin) []eviction.Observation {
	t.Helper()
	reply, err := p.Observer.Observe(t.Context(), eviction.ObserveRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Signals: both})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Observations
}

func measure(t *testing.T, p sdk.Plugin, detail eviction.Detail, pods ...eviction.Pod) []eviction.Measurement {
	t.Helper()
	var out []eviction.Measurement
	req := eviction.MeasureRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Detail: detail, Signals: both, Pods: pods}
	if err := p.Measurer.Measure(t.Context(), req, func(m eviction.Measurement) { out = append(out, m) }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPluginKeepsTheContract(t *testing.T) {
	p := New()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	for _, s := range both {
		if got, want := p.For(s), eviction.CanObserve|eviction.CanMeasure|eviction.CanWatch|eviction.CanRank; got != want {
			t.Errorf("%s: capabilities %b, want %b", s, got, want)
		}
	}
}

func TestObserve(t *testing.T) {
	const total, podsUse, podsInactive = 24684096 << 10, 5000003584, 1000001536
	observed := func(s eviction.Signal, limit, usage, inactive int64) eviction.Observation {
		return eviction.Observation{
			Signal: s, State: eviction.Observed, Available: limit - (usage - inactive), Capacity: limit,
			Components: []eviction.Component{
				{Name: "limit", Value: limit},
				{Name: "usage", Value: usage},
				{Name: "inactive_file", Value: inactive},
				{Name: "working_set", Value: usage - inactive},
			},
		}
	}
	node := func(usage, inactive int64) eviction.Observation {
		o := observed(eviction.MemoryAvailable, total, usage, inactive)
		o.Components = append(o.Components, eviction.Component{Name: "mem_available", Value: 24307448 << 10})
		return o
	}
	absent := eviction.Observation{Signal: eviction.AllocatableMemoryAvailable, State: eviction.Absent}
	unlimited := absent
	unlimited.Err = "its cgroup has no memory limit"
	for tree, want := range map[string][]eviction.Observation{
		"node-v1":     {node(690917376, 143720448), observed(eviction.AllocatableMemoryAvailable, 8<<30, podsUse, podsInactive)},
		"node-hybrid": {node(690917376, 143720448), absent},     // no kubepods
		"node-v2":     {node(3221225472, 536870912), unlimited}, // memory.max is max
		"node-v2-systemd": {
			node(3221225472, 536870912),
			observed(eviction.AllocatableMemoryAvailable, 8<<30, podsUse, podsInactive),
		},
	} {
		t.Run(tree, func(t *testing.T) {
			before := time.Now()
			got := observeBoth(t, configured(t, facts(t, tree)))
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(eviction.Observation{}, "Time", "BootNanos")); diff != "" {
				t.Errorf("observations (-want +got):\n%s", diff)
			}
			for _, o := range got {
				if o.Time.Before(before) || o.Time.After(time.Now()) || o.BootNanos <= 0 {
					t.Errorf("%s: time %v, boot %d, want the time of the call", o.Signal, o.Time, o.BootNanos)
				}
			}
		})
	}
}

func TestObserveOfAnotherSignalIsLeftOut(t *testing.T) {
	p := configured(t, facts(t, "node-v1"))
	reply, err := p.Observer.Observe(t.Context(), eviction.ObserveRequest{Signals: []eviction.Signal{eviction.PIDAvailable}})
	if err != nil || len(reply.Observations) != 0 {
		t.Errorf("got %+v, %v, want nothing", reply, err)
	}
}

func TestUnreadableNodeIsUnknownWithItsFile(t *testing.T) {
	root := t.TempDir()
	writeTree(t, root, map[string]string{
		"proc/meminfo": "MemFree: 1 kB\n",
		"sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
		"sys/fs/cgroup/memory/memory.stat":           "total_inactive_file 0\n",
	})
	got := observeBoth(t, configured(t, eviction.NodeFacts{RootDir: root, CgroupDriver: "cgroupfs"}))
	if got[0].State != eviction.Unknown || !strings.Contains(got[0].Err, filepath.Join(root, "proc/meminfo")+": no MemTotal") {
		t.Errorf("observation %+v, want unknown with the file", got[0])
	}
	if got[1].State != eviction.Absent {
		t.Errorf("allocatable is %+v, want absent", got[1])
	}
}

func TestMeasure(t *testing.T) {
	const pod, workingSet = 104857600, 104857600 - 4194304
	c1 := eviction.Container{Name: "main", ID: "c1"}
	ended := eviction.Container{Name: "init", ID: "gone"}
	for name, c := range map[string]struct {
		node string
		pod  eviction.Pod
		want eviction.Measurement
	}{
		"version 1": {
			"node-v1",
			eviction.Pod{UID: podUID, QoSClass: eviction.Burstable, Containers: []eviction.Container{ended, c1}},
			eviction.Measurement{
				State: eviction.Measured, WorkingSetBytes: eviction.Some(workingSet),
				Containers: []eviction.ContainerMeasurement{{Name: "init"}, {Name: "main", WorkingSetBytes: eviction.Some(52428800 - 1048576)}},
			},
		},
		"version 2": {
			"node-v2",
			eviction.Pod{UID: podUID, QoSClass: eviction.Burstable, Containers: []eviction.Container{c1}},
			eviction.Measurement{
				State: eviction.Measured, WorkingSetBytes: eviction.Some(workingSet),
				Containers: []eviction.ContainerMeasurement{{Name: "main", WorkingSetBytes: eviction.Some(52428800 - 1048576)}},
			},
		},
		"systemd, containerd and CRI-O": {
			"node-v2-systemd",
			eviction.Pod{UID: podUID, QoSClass: eviction.Burstable, Containers: []eviction.Container{{Name: "b", ID: "c2"}, {Name: "a", ID: "c1"}}},
			eviction.Measurement{
				State: eviction.Measured, WorkingSetBytes: eviction.Some(workingSet),
				Containers: []eviction.ContainerMeasurement{
					{Name: "b", WorkingSetBytes: eviction.Some(31457280)},
					{Name: "a", WorkingSetBytes: eviction.Some(52428800 - 1048576)},
				},
			},
		},
		"more cache than use": {
			"node-v1",
			eviction.Pod{UID: "be", QoSClass: eviction.BestEffort},
			eviction.Measurement{State: eviction.Measured, WorkingSetBytes: eviction.Some(0), Containers: []eviction.ContainerMeasurement{}},
		},
		"no cgroup": {
			"node-v1",
			eviction.Pod{UID: "nobody", QoSClass: eviction.Guaranteed},
			eviction.Measurement{State: eviction.NoStats},
		},
		"a uid that is none": {
			"node-v1",
			eviction.Pod{UID: "../../x", QoSClass: eviction.Guaranteed},
			eviction.Measurement{State: eviction.MeasurementUnknown, Err: `pod uid "../../x", want a plain file name`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.UID = c.pod.UID
			if c.want.State == eviction.Measured {
				for _, s := range both {
					c.want.Usage = append(c.want.Usage, eviction.SignalUsage{Signal: s, Value: c.want.WorkingSetBytes.Value})
				}
			}
			p := configured(t, facts(t, c.node))
			for range 2 { // the second time through the files kept open
				got := measure(t, p, eviction.DetailContainers, c.pod)
				if diff := cmp.Diff([]eviction.Measurement{c.want}, got, cmpopts.IgnoreFields(eviction.Measurement{}, "Time")); diff != "" {
					t.Errorf("measurement (-want +got):\n%s", diff)
				}
			}
			if got := measure(t, p, eviction.DetailPod, c.pod); got[0].Containers != nil {
				t.Errorf("containers %+v without being asked", got[0].Containers)
			}
		})
	}
}

// A node says itself how it names the cgroups of pods. Looked for under the other
// name, every pod is without figures and the wrong one goes.
func TestNamesOfPodsCgroupsAreDetected(t *testing.T) {
	pod := eviction.Pod{UID: podUID, QoSClass: eviction.Burstable, Containers: []eviction.Container{{Name: "main", ID: "c1"}}}
	for _, node := range []string{"node-v1", "node-v2", "node-v2-systemd"} {
		said := facts(t, node)
		silent := said
		silent.CgroupDriver = ""
		want, got := configured(t, said), configured(t, silent)
		ignore := cmpopts.IgnoreFields(eviction.Measurement{}, "Time")
		if diff := cmp.Diff(measure(t, want, eviction.DetailContainers, pod), measure(t, got, eviction.DetailContainers, pod), ignore); diff != "" {
			t.Errorf("%s: measurement (-driver given +driver seen):\n%s", node, diff)
		}
		if m := measure(t, got, eviction.DetailPod, pod); m[0].State != eviction.Measured {
			t.Errorf("%s: %+v, want it measured", node, m[0])
		}
		if a, b := observeBoth(t, want)[1], observeBoth(t, got)[1]; a.State != b.State || a.Available != b.Available {
			t.Errorf("%s: allocatable memory %+v, want %+v", node, b, a)
		}
	}
}

// After a change of the driver in place the pods of one tree had no figures, so a small pod was evicted.
func TestPodsInBothTreesHaveTheirUsage(t *testing.T) {
	node := eviction.NodeFacts{RootDir: t.TempDir(), CgroupRoot: "/"}
	files := map[string]string{"sys/fs/cgroup/cgroup.controllers": "memory pids\n"}
	for cgroup, usage := range map[string]string{
		"kubepods/podold":    "100\n",
		"kubepods/podold/c1": "70\n",
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podnew.slice":                         "200\n",
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podnew.slice/cri-containerd-c2.scope": "150\n",
	} {
		files["sys/fs/cgroup/"+cgroup+"/memory.current"] = usage
		files["sys/fs/cgroup/"+cgroup+"/memory.stat"] = "inactive_file 10\n"
	}
	writeTree(t, node.RootDir, files)
	for _, node.CgroupDriver = range []string{"", "cgroupfs", "systemd"} {
		p := configured(t, node)
		for range 2 { // the second time through the files kept open
			got := measure(t, p, eviction.DetailContainers,
				eviction.Pod{UID: "old", QoSClass: eviction.Guaranteed, Running: true, Containers: []eviction.Container{{Name: "a", ID: "c1"}}},
				eviction.Pod{UID: "new", QoSClass: eviction.Burstable, Running: true, Containers: []eviction.Container{{Name: "b", ID: "c2"}}})
			for i, want := range [][2]int64{{90, 60}, {190, 140}} {
				if m := got[i]; m.State != eviction.Measured || m.UsageFor(eviction.MemoryAvailable) != want[0] || m.Containers[0].WorkingSetBytes != eviction.Some(want[1]) {
					t.Errorf("driver %q: %+v, want %d bytes, its container %d", node.CgroupDriver, m, want[0], want[1])
				}
			}
		}
	}
}

// A running pod has a cgroup. If it is not found its place is configured wrongly, which must not
// make the pod the first to go.
func TestARunningPodThatIsNotFoundIsUnknown(t *testing.T) {
	wrong := facts(t, "node-v2-systemd")
	wrong.CgroupRoot, wrong.CgroupDriver = "/elsewhere", "cgroupfs"
	got := measure(t, configured(t, wrong), eviction.DetailPod,
		eviction.Pod{UID: podUID, QoSClass: eviction.Burstable, Running: true},
		eviction.Pod{UID: podUID, QoSClass: eviction.Burstable})
	if got[0].State != eviction.MeasurementUnknown || !strings.Contains(got[0].Err, "elsewhere/kubepods/burstable/pod"+podUID) {
		t.Errorf("running: %+v, want unknown with where it was looked for", got[0])
	}
	if got[1].State != eviction.NoStats {
		t.Errorf("ended: %+v, want no stats", got[1])
	}
}

func TestMeasureStopsAtItsDeadlineWithWhatItHas(t *testing.T) {
	p := configured(t, facts(t, "node-v1"))
	ctx, cancel := context.WithCancel(t.Context())
	emitted := 0
	err := p.Measurer.Measure(ctx, eviction.MeasureRequest{Pods: make([]eviction.Pod, 5)}, func(eviction.Measurement) {
		if emitted++; emitted == 2 {
			cancel()
		}
	})
	if err == nil || emitted != 2 {
		t.Errorf("emitted %d, error %v, want 2 and the context's error", emitted, err)
	}
}

func TestConfigure(t *testing.T) {
	good := facts(t, "node-v1")
	for name, c := range map[string]struct {
		node   eviction.NodeFacts
		config string
		want   []string
	}{
		"unknown field":      {good, `{"pollInterwal":"1s"}`, []string{`unknown field "pollInterwal"`}},
		"not a duration":     {good, `{"pollInterval":"fast"}`, []string{"pollInterval", `"fast"`}},
		"too short":          {good, `{"pollInterval":"1ms"}`, []string{"pollInterval: 1ms, want 10ms to 10s"}},
		"unknown driver":     {eviction.NodeFacts{RootDir: good.RootDir, CgroupDriver: "x"}, "", []string{`cgroup driver "x"`}},
		"everything at once": {eviction.NodeFacts{RootDir: t.TempDir(), CgroupDriver: "none"}, `{"pollInterval":"1h"}`, []string{"pollInterval", "driver", "no cgroup hierarchy"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := configured(t, good)
			err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: c.node, Config: []byte(c.config)})
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want one with %q", err, want)
				}
			}
			if got := observeBoth(t, p); got[0].State != eviction.Observed {
				t.Errorf("after a refused configuration: %+v, want the former one in force", got[0])
			}
		})
	}
	p := configured(t, good)
	if err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: good, Config: []byte(`{"pollInterval":"50ms"}`)}); err != nil {
		t.Error(err)
	}
}

func TestCallsBeforeConfigureAreRefused(t *testing.T) {
	p := New()
	if _, err := p.Observer.Observe(t.Context(), eviction.ObserveRequest{Signals: both}); err == nil {
		t.Error("Observe answered")
	}
	if err := p.Measurer.Measure(t.Context(), eviction.MeasureRequest{}, nil); err == nil {
		t.Error("Measure answered")
	}
	if err := p.Watcher.Watch(t.Context(), eviction.WatchRequest{}, nil); err == nil {
		t.Error("Watch answered")
	}
}

func TestEverythingAtOnce(t *testing.T) {
	node := facts(t, "node-v2-systemd")
	p := configured(t, node)
	pods := []eviction.Pod{{UID: podUID, QoSClass: eviction.Burstable}, {UID: "x", QoSClass: eviction.BestEffort}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for range 50 {
				if i == 0 {
					if err := p.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: node}); err != nil {
						t.Error(err)
					}
				}
				reply, err := p.Observer.Observe(ctx, eviction.ObserveRequest{Signals: both})
				if err != nil || reply.Observations[0].State != eviction.Observed {
					t.Errorf("observed %+v, %v", reply, err)
				}
				err = p.Measurer.Measure(ctx, eviction.MeasureRequest{Signals: both, Pods: pods}, func(m eviction.Measurement) {
					if m.UID == podUID && m.State != eviction.Measured || m.UID == "x" && m.State != eviction.NoStats {
						t.Errorf("measured %+v", m)
					}
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		req := eviction.WatchRequest{Thresholds: []eviction.WatchThreshold{{Signal: eviction.MemoryAvailable, Threshold: eviction.Threshold{Amount: 1}}}}
		if err := p.Watcher.Watch(ctx, req, func(eviction.Wake) {}); err != nil {
			t.Error(err)
		}
	})
	group.Wait()
	cancel()
	watching.Wait()
}

func TestMeasureAllocatesPerCallNotPerPod(t *testing.T) {
	p := configured(t, facts(t, "node-v1"))
	allocs := func(n int) float64 {
		pods := make([]eviction.Pod, n)
		for i := range pods {
			pods[i] = eviction.Pod{UID: podUID, QoSClass: eviction.Burstable}
		}
		req := eviction.MeasureRequest{Detail: eviction.DetailPod, Signals: both, Pods: pods}
		ctx := t.Context()
		return testing.AllocsPerRun(50, func() {
			if err := p.Measurer.Measure(ctx, req, func(eviction.Measurement) {}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocs(1), allocs(200); many > few+1 || many > 8 {
		t.Errorf("%v allocations for 1 pod and %v for 200, want no more for more pods", few, many)
	}
}

func TestRankIsTheKubelets(t *testing.T) {
	candidate := func(uid string, priority int32, request, usage int64) eviction.Candidate {
		return eviction.Candidate{
			Pod: eviction.Pod{UID: uid, Priority: priority, MemoryRequestBytes: request},
			Measurement: eviction.Measurement{
				UID: uid, State: eviction.Measured, WorkingSetBytes: eviction.Some(usage),
				Usage: []eviction.SignalUsage{{Signal: eviction.MemoryAvailable, Value: usage}},
			},
		}
	}
	ranked, err := New().Ranker.Rank(t.Context(), eviction.RankRequest{Signal: eviction.MemoryAvailable, Candidates: []eviction.Candidate{
		candidate("within", -5, 100, 90),
		candidate("important", 10, 100, 900),
		candidate("little over", 0, 100, 110),
		candidate("far over", 0, 100, 500),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range ranked {
		got = append(got, r.UID)
	}
	if diff := cmp.Diff([]string{"far over", "little over", "important", "within"}, got); diff != "" {
		t.Errorf("ranking (-want +got):\n%s", diff)
	}
}

func writeTree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		testos.Put(t, path, content, 0o644)
	}
}

// After a reload the former descriptors were open until the garbage collector ran: 1,226 for 620.
func TestReloadsLeaveDescriptorsOpen(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	f := facts(t, "node-v2")
	p := configured(t, f)
	use := func() leaks.Count {
		observeBoth(t, p)
		if got := measure(t, p, eviction.DetailPod, eviction.Pod{UID: podUID, QoSClass: "Burstable"}); len(got) != 1 || got[0].State != eviction.Measured {
			t.Fatalf("measured %+v, want the pod, so that its files are open", got)
		}
		return leaks.Now(t)
	}
	before := use()
	for range 10 {
		if err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: f}); err != nil {
			t.Fatal(err)
		}
		use()
	}
	if now := use(); now.Files > before.Files {
		t.Errorf("%d descriptors after reloads, want %d as before", now.Files, before.Files)
	}
}

// The same warning came with each start of the watch and each eviction, 148 times.
func TestThatThereAreNoNotificationsIsSaidAgain(t *testing.T) {
	var log strings.Builder
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	dir, silent := t.TempDir(), new(atomic.Bool)
	for _, name := range []string{"memory.usage_in_bytes", "cgroup.event_control"} {
		testos.WriteFile(t, filepath.Join(dir, name), "", 0o600)
	}
	levels := func(err error, levels ...int64) { // of a watch
		ctx, cancel := context.WithCancel(t.Context())
		rings := make(chan string, 1)
		a := newAlarm(func(string) (string, error) { return dir, err }, rings, silent)
		var running sync.WaitGroup
		running.Go(func() { a.run(ctx) })
		for _, level := range levels {
			a.want <- wanted{level: level}
			<-rings // when it is set, or cannot be
		}
		cancel()
		running.Wait()
	}
	wants := func(when string, want int) {
		t.Helper()
		if got := strings.Count(log.String(), "memory cgroup gives no notifications"); got != want {
			t.Errorf("%s: said %d times, want %d:\n%s", when, got, want, &log)
		}
	}
	levels(errors.New("no such file"), 1<<20, 0, 2<<20, 0, 3<<20)
	wants("levels come and go", 1)
	levels(errors.New("no such file"), 1<<20)
	wants("another watch", 1)
	levels(nil, 1<<20)
	levels(errors.New("no such file"), 1<<20, 2<<20)
	wants("it had worked meanwhile", 2)
}
