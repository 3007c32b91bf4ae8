package memory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/memorynode"
)

// One pod's cgroup said 1 PiB on a machine of 8 GiB: the pod went first, as it "exceeds request by 1Pi".
func TestAPodThatUsesMoreThanTheMachineHasIsUnknown(t *testing.T) {
	for name, files := range map[string][2]string{
		"v1": {"sys/fs/cgroup/memory/kubepods/burstable/pod%s/memory.usage_in_bytes", "sys/fs/cgroup/memory/kubepods/burstable/pod%s/memory.stat"},
		"v2": {"sys/fs/cgroup/kubepods/burstable/pod%s/memory.current", "sys/fs/cgroup/kubepods/burstable/pod%s/memory.stat"},
	} {
		t.Run(name, func(t *testing.T) {
			node := eviction.NodeFacts{RootDir: t.TempDir(), CgroupRoot: "/", CgroupDriver: "cgroupfs"}
			tree := map[string]string{
				"proc/meminfo": "MemTotal: 8388608 kB\n", "sys/fs/cgroup/memory/x": "", "sys/fs/cgroup/cgroup.controllers": "memory\n",
			}
			if name == "v1" {
				tree["sys/fs/cgroup/memory/memory.usage_in_bytes"] = "1\n"
			}
			const gib, pib = 1 << 30, 1 << 50
			for cgroup, use := range map[string][2]int64{"one": {pib, 0}, "one/c1": {pib, 0}, "two": {gib, 1}, "two/c1": {gib / 2, 1}, "cache": {1, pib}, "brief": {1, 2}} {
				for i, text := range []string{"%d\n", "inactive_file %[1]d\ntotal_inactive_file %[1]d\n"} {
					tree[fmt.Sprintf(files[i], cgroup)] = fmt.Sprintf(text, use[i])
				}
			}
			tree[fmt.Sprintf(files[0], "two/c2")], tree[fmt.Sprintf(files[1], "two/c2")] = fmt.Sprintln(pib), "inactive_file 0\ntotal_inactive_file 0\n"
			writeTree(t, node.RootDir, tree)
			pod := func(uid string) eviction.Pod {
				return eviction.Pod{UID: uid, QoSClass: eviction.Burstable, Running: true, Containers: []eviction.Container{{Name: "a", ID: "c1"}, {Name: "b", ID: "c2"}}}
			}
			p := configured(t, node)
			got := measure(t, p, eviction.DetailContainers, pod("one"), pod("two"), pod("cache"), pod("brief"))
			for _, i := range []int{0, 2} {
				if m := got[i]; m.State != eviction.MeasurementUnknown || m.WorkingSetBytes.OK || len(m.Usage)+len(m.Containers) > 0 || m.Err != "1125899906842624 is more than the machine's memory, 8589934592" {
					t.Errorf("%+v, want unknown with the reason", m)
				}
			}
			if m := got[1]; m.State != eviction.Measured || m.UsageFor(eviction.MemoryAvailable) != gib-1 || m.Containers[0].WorkingSetBytes != eviction.Some(gib/2-1) || m.Containers[1].WorkingSetBytes.OK {
				t.Errorf("%+v, want it measured, without a figure of the container b", m)
			}
			if m := got[3]; m.State != eviction.Measured || m.WorkingSetBytes != eviction.Some(0) {
				t.Errorf("%+v, want 0 while the cache exceeds the usage", m)
			}
			testos.WriteFile(t, filepath.Join(node.RootDir, "proc/meminfo"), "nothing\n", 0o600)
			if m := measure(t, p, eviction.DetailPod, pod("two"))[0]; m.State != eviction.Measured {
				t.Errorf("%+v, want it measured although the size of the machine is not known", m)
			}
		})
	}
}

// 80 GiB were used of a machine of 32: all memory seemed to be missing while 20 GiB were available.
func TestANodeThatUsesMoreThanItHasIsAsTheKernelSays(t *testing.T) {
	n := memorynode.New(t)
	p := configured(t, n.Facts())
	n.Use(1001)
	for _, alsoWrong := range []string{"", "MemAvailable: 1024001 kB\n"} {
		writeTree(t, n.Root, map[string]string{"proc/meminfo": "MemTotal: 1024000 kB\n" + alsoWrong})
		if o := observeBoth(t, p)[0]; o.State != eviction.Unknown || !strings.Contains(o.Err, "cgroup /: 1049624576 is more than the machine's memory") {
			t.Errorf("%+v, want unknown with the reason", o)
		}
	}
	writeTree(t, n.Root, map[string]string{"proc/meminfo": "MemTotal: 1024000 kB\nMemAvailable: 307200 kB\n"})
	o := observeBoth(t, p)[0]
	if got := fmt.Sprint(o.State, o.Available>>20, o.Capacity>>20, o.Components); got != fmt.Sprint(eviction.Observed, 300, 1000, " [{limit 1048576000} {impossible_usage 1049624576} {mem_available 314572800}]") {
		t.Errorf("%s, want 300 of 1000 MiB", got)
	}
	n.Use(800) // the figure is there again
	if o := observeBoth(t, p)[0]; o.Available != 200*mib || len(o.Components) != 5 {
		t.Errorf("%+v, want 200 MiB", o)
	}
}

// The level was set on kubepods, whose usage does not change while a neighbour in the tenant's cgroup
// fills that.
func TestTheKernelNotifiesOfTheCgroupWithTheLimit(t *testing.T) {
	root := t.TempDir()
	memory := filepath.Join(root, "sys/fs/cgroup/memory")
	writeTree(t, root, map[string]string{"proc/meminfo": "MemTotal: 8388608 kB\n"})
	for cgroup, c := range map[string][2]int64{"": {3000 * mib, 1<<63 - 4096}, "tenant": {2000 * mib, 2400 * mib}, "tenant/kubepods": {1000 * mib, 1<<63 - 4096}} {
		writeTree(t, filepath.Join(memory, cgroup), map[string]string{
			"memory.usage_in_bytes": fmt.Sprintln(c[0]), "memory.stat": "total_inactive_file 0\n",
			"memory.limit_in_bytes": fmt.Sprintln(c[1]), "cgroup.event_control": "",
		})
	}
	p := configured(t, eviction.NodeFacts{RootDir: root, CgroupRoot: "/tenant", CgroupDriver: "cgroupfs"})
	ctx, cancel := context.WithCancel(t.Context())
	_, done := watch(ctx, t, p, eviction.WatchThreshold{Signal: eviction.AllocatableMemoryAvailable, Threshold: eviction.Threshold{Amount: 100 * mib}})
	defer done.Wait()
	defer cancel()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(memory, "tenant/cgroup.event_control"))
		if strings.HasSuffix(string(text), fmt.Sprint(" ", pageAbove(2300*mib))) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("level %q of the tenant's cgroup, want 2300 MiB and a page", text)
		}
	}
	if text := testos.ReadFile(t, filepath.Join(memory, "tenant/kubepods/cgroup.event_control")); len(text) > 0 {
		t.Errorf("level %q of kubepods, want none", text)
	}
}
