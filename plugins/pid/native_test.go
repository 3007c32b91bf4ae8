package pid_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/leaks"
)

const podUID = "11111111-2222-3333-4444-555555555555"

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

func native(t *testing.T, facts eviction.NodeFacts) sdk.Plugin {
	t.Helper()
	p := pid.New()
	if err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: facts}); err != nil {
		t.Fatal(err)
	}
	return p
}

func measure(t *testing.T, p sdk.Plugin, pods ...eviction.Pod) []eviction.Measurement {
	t.Helper()
	var out []eviction.Measurement
	req := eviction.MeasureRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Detail: eviction.DetailContainers, Signals: asked, Pods: pods}
	if err := p.Measurer.Measure(t.Context(), req, func(m eviction.Measurement) { out = append(out, m) }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestObserveANode(t *testing.T) {
	for node, limit := range map[string]int64{"node-v1": 32768, "node-hybrid": 192731, "node-v2": 192731, "node-v2-systemd": 192731} {
		t.Run(node, func(t *testing.T) {
			before := time.Now()
			reply, err := observe(t, native(t, facts(t, node)), 1)
			if err != nil || len(reply.Observations) != 1 {
				t.Fatalf("observations %+v, %v, want one", reply.Observations, err)
			}
			o := reply.Observations[0]
			if o.Signal != eviction.PIDAvailable || o.State != eviction.Observed || o.Available != limit-2500 || o.Capacity != limit {
				t.Errorf("observed %+v, want %d of %d", o, limit-2500, limit)
			}
			if o.Time.Before(before) || o.Time.After(time.Now()) || o.BootNanos <= 0 {
				t.Errorf("time %v, boot %d, want the time of the call", o.Time, o.BootNanos)
			}
			if last := o.Components[len(o.Components)-1]; last != (eviction.Component{Name: "running", Value: 2500}) {
				t.Errorf("components %+v do not end with what runs", o.Components)
			}
		})
	}
}

func TestObserveOfAnotherSignalIsLeftOut(t *testing.T) {
	p := native(t, facts(t, "node-v1"))
	reply, err := p.Observer.Observe(t.Context(), eviction.ObserveRequest{Signals: []eviction.Signal{eviction.MemoryAvailable}})
	if err != nil || len(reply.Observations) != 0 {
		t.Errorf("got %+v, %v, want nothing", reply, err)
	}
}

func TestMeasurePods(t *testing.T) {
	measured := func(uid string, tasks int64) eviction.Measurement {
		return eviction.Measurement{
			UID: uid, State: eviction.Measured, Processes: eviction.Some(tasks),
			Usage: []eviction.SignalUsage{{Signal: eviction.PIDAvailable, Value: tasks}},
		}
	}
	for node, last := range map[string]eviction.Measurement{
		"node-v1":         measured("be", 3),
		"node-v2":         {UID: "be", State: eviction.NoStats},
		"node-v2-systemd": {UID: "be", State: eviction.NoStats},
	} {
		t.Run(node, func(t *testing.T) {
			got := measure(t, native(t, facts(t, node)),
				eviction.Pod{UID: podUID, QoSClass: eviction.Burstable},
				eviction.Pod{UID: "gone", QoSClass: eviction.Guaranteed},
				eviction.Pod{UID: "../evil", QoSClass: eviction.Burstable},
				eviction.Pod{UID: "be", QoSClass: eviction.BestEffort})
			want := []eviction.Measurement{
				measured(podUID, 41),
				{UID: "gone", State: eviction.NoStats},
				{UID: "../evil", Err: `pod uid "../evil", want a plain file name`},
				last,
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(eviction.Measurement{}, "Time")); diff != "" {
				t.Errorf("measurements (-want +got):\n%s", diff)
			}
		})
	}
}

// Looked for under another name than the node's, every pod would be without figures.
func TestNamesOfPodsCgroupsAreDetected(t *testing.T) {
	for _, node := range []string{"node-v1", "node-v2", "node-v2-systemd"} {
		silent := facts(t, node)
		silent.CgroupDriver = ""
		got := measure(t, native(t, silent), eviction.Pod{UID: podUID, QoSClass: eviction.Burstable})
		if len(got) != 1 || got[0].State != eviction.Measured || got[0].Processes.Value != 41 {
			t.Errorf("%s: %+v, want 41 tasks", node, got)
		}
	}
}

func TestARunningPodThatIsNotFoundIsUnknown(t *testing.T) {
	wrong := facts(t, "node-v2-systemd")
	wrong.CgroupRoot, wrong.CgroupDriver = "/elsewhere", "cgroupfs"
	got := measure(t, native(t, wrong),
		eviction.Pod{UID: podUID, QoSClass: eviction.Burstable, Running: true}, eviction.Pod{UID: podUID, QoSClass: eviction.Burstable})
	if got[0].State != eviction.MeasurementUnknown || !strings.Contains(got[0].Err, "elsewhere/kubepods/burstable/pod"+podUID) || got[1].State != eviction.NoStats {
		t.Errorf("%+v, want the running one unknown, with where it was looked for, and the other without stats", got)
	}
}

// A pod without figures ranks before all others of its priority. One whose tasks
// are only not counted must be unknown instead.
func TestAPodWithoutACounterIsUnknown(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"proc/self/status":                                      "NSpid:\t1\n",
		"sys/fs/cgroup/cgroup.controllers":                      "pids\n",
		"sys/fs/cgroup/kubepods/besteffort/podbe/cgroup.events": "",
	} {
		testos.Put(t, filepath.Join(root, name), content, 0o600)
	}
	node := eviction.NodeFacts{RootDir: root, CgroupRoot: "/", CgroupDriver: "cgroupfs"}
	got := measure(t, native(t, node), eviction.Pod{UID: "be", QoSClass: eviction.BestEffort})
	if len(got) != 1 || got[0].State != eviction.MeasurementUnknown || !strings.Contains(got[0].Err, "pids.current") {
		t.Errorf("measured %+v, want one that is unknown and says why", got)
	}
}

// A pod of 5 million tasks, more than a kernel can run, went first.
func TestAPodWithMoreTasksThanCanRunIsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		pidMax, running string
		possible        int // the tasks of the largest pod that can be
	}{
		"as it is":                 {"32768\n", "0 0 0 1/900 9\n", 32768},
		"lowered below what runs":  {"301\n", "0 0 0 1/900 9\n", 900},
		"a limit that is not read": {"many\n", "0 0 0 1/900 9\n", 1 << 22},
		"tasks that are not read":  {"32768\n", "0 0 0 9\n", 1 << 22},
		"more tasks than can be":   {"32768\n", "0 0 0 1/5000000 9\n", 1 << 22},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range map[string]string{
				"proc/self/status": "NSpid:\t1\n", "proc/loadavg": c.running, "proc/sys/kernel/pid_max": c.pidMax,
				"sys/fs/cgroup/cgroup.controllers":                  "pids\n",
				"sys/fs/cgroup/kubepods/podpossible/pids.current":   fmt.Sprintln(c.possible),
				"sys/fs/cgroup/kubepods/podimpossible/pids.current": fmt.Sprintln(c.possible + 1),
			} {
				testos.Put(t, filepath.Join(root, name), content, 0o600)
			}
			got := measure(t, native(t, eviction.NodeFacts{RootDir: root, CgroupRoot: "/", CgroupDriver: "cgroupfs"}),
				eviction.Pod{UID: "possible", QoSClass: eviction.Guaranteed}, eviction.Pod{UID: "impossible", QoSClass: eviction.Guaranteed})
			if m := got[0]; m.State != eviction.Measured || m.Processes != eviction.Some(int64(c.possible)) {
				t.Errorf("%+v, want %d tasks", m, c.possible)
			}
			if m := got[1]; m.State != eviction.MeasurementUnknown || len(m.Usage) > 0 || !strings.Contains(m.Err, "more than the tasks that can run") {
				t.Errorf("%+v, want unknown with the reason", m)
			}
		})
	}
}

func TestMeasureForAnotherSignalHasNoUsage(t *testing.T) {
	p := native(t, facts(t, "node-v1"))
	req := eviction.MeasureRequest{Signals: []eviction.Signal{eviction.MemoryAvailable}, Pods: []eviction.Pod{{UID: "be", QoSClass: eviction.BestEffort}}}
	if err := p.Measurer.Measure(t.Context(), req, func(m eviction.Measurement) {
		if len(m.Usage) != 0 || m.Processes != eviction.Some(3) {
			t.Errorf("measured %+v, want processes and no usage", m)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	p := native(t, facts(t, "node-v1"))
	ctx, cancel := context.WithCancel(t.Context())
	req := eviction.MeasureRequest{Signals: asked, Pods: make([]eviction.Pod, 5)}
	n := 0
	err := p.Measurer.Measure(ctx, req, func(eviction.Measurement) { n++; cancel() })
	if n != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d pods, %v, want one and the end", n, err)
	}
}

// A container that does not share the node's pid namespace would read the
// limit of its own.
func TestWithoutTheNodesPIDNamespaceItRefuses(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"proc/self/status":                     "NSpid:\t4711\t1\n",
		"proc/loadavg":                         "0 0 0 1/10 9\n",
		"proc/sys/kernel/pid_max":              "4194304\n",
		"sys/fs/cgroup/cgroup.controllers":     "pids\n",
		"sys/fs/cgroup/kubepods/cgroup.events": "",
	} {
		testos.Put(t, filepath.Join(root, name), content, 0o600)
	}
	p := native(t, facts(t, "node-v1"))
	err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: eviction.NodeFacts{RootDir: root, CgroupDriver: "cgroupfs"}})
	if err == nil || !strings.Contains(err.Error(), "pid namespace") || !strings.Contains(err.Error(), "hostPID: true") {
		t.Errorf("error is %v, want one that says what to do", err)
	}
	if reply, err := observe(t, p, 1); err != nil || reply.Observations[0].Capacity != 32768 {
		t.Errorf("observed %+v, %v, want the former node", reply, err)
	}
}

func TestAllThatIsWrongWithANode(t *testing.T) {
	err := pid.New().Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: eviction.NodeFacts{RootDir: t.TempDir(), CgroupDriver: "none"}})
	for _, want := range []string{"hostPID: true", `cgroup driver "none"`, "no cgroup hierarchy with a pids controller"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}

// After a reload the former descriptors were open until the garbage collector ran.
func TestReloadsLeaveDescriptorsOpen(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	f := facts(t, "node-v2")
	p := native(t, f)
	use := func() leaks.Count {
		if _, err := observe(t, p, 1); err != nil {
			t.Fatal(err)
		}
		if got := measure(t, p, eviction.Pod{UID: podUID, QoSClass: "Burstable"}); len(got) != 1 || got[0].State != eviction.Measured {
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
