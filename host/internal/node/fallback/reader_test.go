package fallback

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/leaks"
)

var all = []eviction.Signal{
	eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable,
	eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.PIDAvailable,
}

// madeUp makes a node with 8 GiB of which 3 GiB are used, 1 GiB of that cache, and
// 100 tasks of 32768.
func madeUp(t *testing.T) eviction.NodeFacts {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/meminfo":                               "MemTotal: 8388608 kB\n",
		"proc/loadavg":                               "0.00 0.00 0.00 1/100 1000\n",
		"proc/self/status":                           "NSpid:\t1\n",
		"proc/sys/kernel/pid_max":                    "32768\n",
		"proc/sys/kernel/threads-max":                "60000\n",
		"sys/fs/cgroup/memory/x/empty":               "",
		"sys/fs/cgroup/memory/memory.usage_in_bytes": fmt.Sprintln(3 << 30),
		"sys/fs/cgroup/memory/memory.stat":           fmt.Sprintln("inactive_file 7\ntotal_inactive_file", 1<<30),
		"var/lib/kubelet/x":                          "",
	} {
		testos.Put(t, filepath.Join(root, name), text, 0o644)
	}
	return eviction.NodeFacts{RootDir: root, CgroupRoot: "/", CgroupDriver: "cgroupfs", KubeletRootDir: "/var/lib/kubelet"}
}

func observe(t *testing.T, r *Reader, signals ...eviction.Signal) map[eviction.Signal]eviction.Observation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got := map[eviction.Signal]eviction.Observation{}
	for _, o := range r.Observe(ctx, signals) {
		got[o.Signal] = o
	}
	if len(got) != len(signals) {
		t.Fatalf("%d observations of %d signals: %v", len(got), len(signals), got)
	}
	return got
}

func TestTheHostReadsWhatThePluginsWould(t *testing.T) {
	facts := madeUp(t)
	r := New(facts)
	room, err := nodefs.FS{}.Statfs(facts.RootDir)
	if err != nil {
		t.Fatal(err)
	}
	got := observe(t, r, all...)
	for s, want := range map[eviction.Signal][2]int64{
		eviction.MemoryAvailable: {6 << 30, 8 << 30},
		eviction.PIDAvailable:    {32768 - 100, 32768},
	} {
		o := got[s]
		if o.State != eviction.Observed || o.Available != want[0] || o.Capacity != want[1] || len(o.Components) == 0 || o.Time.IsZero() || o.BootNanos == 0 {
			t.Errorf("%s: %+v, want %d of %d with times and components", s, o, want[0], want[1])
		}
	}
	if o := got[eviction.NodeFsAvailable]; o.State != eviction.Observed || o.Capacity != room.CapacityBytes || o.Available <= 0 {
		t.Errorf("nodefs.available: %+v, want a capacity of %d", o, room.CapacityBytes)
	}
	if o := got[eviction.NodeFsInodesFree]; room.Inodes > 0 && (o.State != eviction.Observed || o.Capacity != room.Inodes) {
		t.Errorf("nodefs.inodesFree: %+v, want a capacity of %d", o, room.Inodes)
	}
	if o := got[eviction.AllocatableMemoryAvailable]; o.State != eviction.Absent {
		t.Errorf("allocatableMemory.available without a cgroup of pods: %+v, want absent", o)
	}
}

// A pool of huge pages is in no cgroup: 6 GiB of 8 seemed to be left.
func TestTheHostCountsNoHugePagesAsAvailable(t *testing.T) {
	facts := madeUp(t)
	testos.Put(t, filepath.Join(facts.RootDir, "proc/meminfo"), "MemTotal: 8388608 kB\nMemAvailable: 1048576 kB\n", 0o644)
	r := New(facts)
	if o := observe(t, r, eviction.MemoryAvailable)[eviction.MemoryAvailable]; o.Available != 1<<30 || o.Capacity != 8<<30 {
		t.Errorf("%+v, want 1Gi of 8Gi", o)
	}
	r.SetMemoryFigure(nodefs.KubeletMemory)
	if o := observe(t, r, eviction.MemoryAvailable)[eviction.MemoryAvailable]; o.Available <= 1<<30 {
		t.Errorf("%+v, want the kubelet's figure after a reload", o)
	}
}

// Pods that could not fork were no reason to act.
func TestTheHostSeesTheLimitOfTasksOfAllPods(t *testing.T) {
	facts := madeUp(t)
	for name, text := range map[string]string{"tasks": "", "kubepods/pids.max": "80\n", "kubepods/pids.current": "78\n"} {
		testos.Put(t, filepath.Join(facts.RootDir, "sys/fs/cgroup/pids", name), text, 0o644)
	}
	if o := observe(t, New(facts), eviction.PIDAvailable)[eviction.PIDAvailable]; o.Available != 2 || o.Capacity != 80 {
		t.Errorf("%+v, want 2 of 80", o)
	}
}

func TestAllPodsTogether(t *testing.T) {
	facts := madeUp(t)
	pods := filepath.Join(facts.RootDir, "sys/fs/cgroup/memory/kubepods")
	testos.Put(t, filepath.Join(pods, "memory.usage_in_bytes"), fmt.Sprintln(1<<30), 0o644)
	testos.Put(t, filepath.Join(pods, "memory.limit_in_bytes"), fmt.Sprintln(4<<30), 0o644)
	testos.Put(t, filepath.Join(pods, "memory.stat"), "total_inactive_file 0\n", 0o644)
	o := observe(t, New(facts), eviction.AllocatableMemoryAvailable)[eviction.AllocatableMemoryAvailable]
	if o.State != eviction.Observed || o.Available != 3<<30 || o.Capacity != 4<<30 {
		t.Errorf("%+v, want 3Gi of 4Gi", o)
	}
}

// The limits of a tenant's cgroup and of a container were reached, and all signals had plenty.
func TestTheHostSeesLimitsAboveTheCgroupOfAllPods(t *testing.T) {
	facts := madeUp(t)
	facts.CgroupRoot = "/tenant"
	for name, text := range map[string]string{
		"memory/memory.limit_in_bytes": fmt.Sprintln(int64(5) << 30), "pids/tasks": "", "pids/pids.max": "2048\n", "pids/pids.current": "2040\n",
		"memory/tenant/memory.limit_in_bytes": fmt.Sprintln(int64(2) << 30), "memory/tenant/memory.usage_in_bytes": fmt.Sprintln(int64(1) << 30), "memory/tenant/memory.stat": "total_inactive_file 0\n",
		"memory/tenant/kubepods/memory.limit_in_bytes": "9223372036854771712\n", "memory/tenant/kubepods/memory.usage_in_bytes": "1\n", "memory/tenant/kubepods/memory.stat": "total_inactive_file 0\n",
		"pids/tenant/kubepods/pids.max": "max\n", "pids/tenant/kubepods/pids.current": "30\n",
	} {
		testos.Put(t, filepath.Join(facts.RootDir, "sys/fs/cgroup", name), text, 0o644)
	}
	for s, o := range observe(t, New(facts), eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable, eviction.PIDAvailable) {
		want := map[eviction.Signal][]any{
			eviction.MemoryAvailable:            {3 << 30, 5 << 30, "limit of /"},
			eviction.AllocatableMemoryAvailable: {1 << 30, 2 << 30, "limit of /tenant"},
			eviction.PIDAvailable:               {8, 2048, "limit of /"},
		}[s]
		limit := ""
		for _, c := range o.Components {
			if c.Value == o.Capacity {
				limit = c.Name
			}
		}
		if got := fmt.Sprint(o.Available, o.Capacity, limit); got != fmt.Sprint(want...) {
			t.Errorf("%s: %s, want %v", s, got, want)
		}
	}
}

func TestWhatCannotBeReadIsUnknownWithTheReason(t *testing.T) {
	facts := eviction.NodeFacts{RootDir: t.TempDir(), CgroupDriver: "cgroupfs", KubeletRootDir: "/var/lib/kubelet"}
	r := New(facts)
	for s, o := range observe(t, r, all...) {
		if o.State != eviction.Unknown || !strings.Contains(o.Err, facts.RootDir) {
			t.Errorf("%s: %+v, want unknown with the path", s, o)
		}
	}
	if r.Reads(eviction.ImageFsAvailable) || !r.Reads(eviction.NodeFsInodesFree) {
		t.Error("want nodefs to be read here, and imagefs not")
	}
	if o := observe(t, r, eviction.ImageFsAvailable)[eviction.ImageFsAvailable]; o.State != eviction.Unknown || o.Err == "" {
		t.Errorf("imagefs.available: %+v, want unknown", o)
	}
}

// A container with a pid namespace of its own would see its own limit.
func TestTasksOfAnotherPIDNamespaceAreNotTheNodes(t *testing.T) {
	facts := madeUp(t)
	testos.Put(t, filepath.Join(facts.RootDir, "proc/self/status"), "NSpid:\t77\t1\n", 0o644)
	if o := observe(t, New(facts), eviction.PIDAvailable)[eviction.PIDAvailable]; o.State != eviction.Unknown || !strings.Contains(o.Err, "hostPID") {
		t.Errorf("%+v, want unknown with what to do", o)
	}
}

func TestAFilesystemThatHangsBlocksOneGoroutineOnly(t *testing.T) {
	facts := madeUp(t)
	synctest.Test(t, func(t *testing.T) {
		r := New(facts)
		disk := r.sources[eviction.NodeFsAvailable]
		disk.slot <- struct{}{} // as if a read was in the kernel
		synctest.Wait()
		before := leaks.Now(t).Goroutines
		const looks = 20
		for range looks {
			began := time.Now()
			got := observe(t, r, all...)
			if took := time.Since(began); took > 10*time.Second {
				t.Fatalf("took %v, want no longer than it had", took)
			}
			if o := got[eviction.NodeFsInodesFree]; o.State != eviction.Unknown || !strings.Contains(o.Err, "does not answer") {
				t.Errorf("nodefs.inodesFree: %+v, want unknown", o)
			}
			if o := got[eviction.MemoryAvailable]; o.State != eviction.Observed {
				t.Errorf("memory.available: %+v, want observed", o)
			}
		}
		synctest.Wait()
		// One or two may not have ended yet; a leak is one a look.
		if after := leaks.Now(t).Goroutines; after >= before+looks/2 {
			t.Errorf("%d goroutines after many looks, %d before", after, before)
		}
		<-disk.slot
		if o := observe(t, r, eviction.NodeFsAvailable)[eviction.NodeFsAvailable]; o.State != eviction.Observed {
			t.Errorf("after it came back: %+v, want observed", o)
		}
	})
}

// The host opened some twenty files each second for its samples.
func TestWhatIsSampledStaysOpen(t *testing.T) {
	facts := madeUp(t)
	r := New(facts)
	before := observe(t, r, all...)
	open := leaks.Now(t).Files
	for range 10 {
		for s := range before {
			r.Read(s)
		}
	}
	if now := leaks.Now(t).Files; open == 0 || now != open {
		t.Errorf("%d descriptors after ten samples, %d before", now, open)
	}
	testos.Put(t, filepath.Join(facts.RootDir, "proc/loadavg"), "damaged\n", 0o644)
	if o := r.Read(eviction.PIDAvailable); o.State != eviction.Unknown {
		t.Errorf("pid.available of a damaged file: %+v, want it unknown", o)
	}
	if now := leaks.Now(t).Files; now >= open {
		t.Errorf("%d descriptors after a failed read, want less than %d", now, open)
	}
}
