package podusage

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// 3,000 files and a millisecond each time: every answer is a lower bound that
// does not fall, and the last one is what du says.
func TestManyFilesAndShortDeadlines(t *testing.T) {
	n := newNode(t)
	row := n.add("u", []eviction.Volume{emptyDir("v")}, fakecri.Container{Name: "c"})
	const dir = "/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v"
	n.fill(dir, 3_000)
	want := n.du(dir)
	var before int64
	for i := 1; ; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		got, err := n.measure(ctx, request(eviction.DetailPod, eviction.NodeFsInodesFree, row))
		cancel()
		m := got["u"]
		used := m.UsageFor(eviction.NodeFsInodesFree)
		if err != nil || m.State == eviction.NoStats || m.State == eviction.Measured && (used < before || used > want.Inodes) {
			t.Fatalf("look %d: %+v, %v after %d, want no less and at most %d", i, m, err, before, want.Inodes)
		}
		before = max(before, used)
		if used == want.Inodes {
			t.Logf("measured %d inodes in %d looks of 1 ms, du says %d", used, i, want.Inodes)
			break
		}
		if i > 10_000 {
			t.Fatalf("%d of %d inodes after %d looks", used, want.Inodes, i)
		}
	}
	got := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row)
	if v := got.Volumes[0]; v.UsedBytes.Value != want.Bytes || v.InodesUsed.Value != want.Inodes {
		t.Errorf("measured %+v, du says %+v", v, want)
	}
}

// This process plays a pod's, 101, and another that has come by a number that was
// the pod's a moment ago, 102.
func TestDeletedFilesThatAreOpenAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		volumes []eviction.Volume
		counts  bool
	}{
		"of a volume": {[]eviction.Volume{emptyDir("v")}, true},
		"they may be anybody's if it sees the node's files": {[]eviction.Volume{emptyDir("v"), {Name: "h", Kind: "hostPath", CountsForRanking: true}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			const cgroups, dir = "/sys/fs/cgroup/memory/", "/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v"
			n.write(cgroups+"memory.usage_in_bytes", 0)
			n.text(cgroups+"kubepods/burstable/podu/sandbox/cgroup.procs", "101\n102\n999999999\n")
			n.text("/proc/101/cgroup", "4:memory:/kubepods/burstable/podu/sandbox\n0::/\n")
			n.text("/proc/102/cgroup", "4:memory:/kubepods/burstable/podu2/sandbox\n0::/podu:\n")
			n.start(Walk{}) // now that it has cgroups
			row := n.add("u", c.volumes)
			n.write(dir+"/stays", 5000)
			quiet := n.du(dir)
			if got := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row); got.UsageFor(eviction.NodeFsAvailable) != quiet.Bytes {
				t.Fatalf("before anything is deleted: %+v, du says %+v", got, quiet)
			}
			held := n.hold(101, dir+"/goes", 100_000)
			n.hold(102, "/another", 200_000)
			want := sum(quiet, held)
			if !c.counts {
				want = quiet
			}
			got := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row)
			if got.UsageFor(eviction.NodeFsAvailable) != want.Bytes || got.EphemeralStorageUsedBytes.Value != want.Bytes {
				t.Errorf("bytes: %+v, want %d: %d with a name and %d without", got, want.Bytes, quiet.Bytes, held.Bytes)
			}
			if got.Volumes[0].UsedBytes.Value != quiet.Bytes {
				t.Errorf("volume: %+v, want as du, %d", got.Volumes[0], quiet.Bytes)
			}
			got = n.one(eviction.DetailPod, eviction.NodeFsInodesFree, row)
			if got.UsageFor(eviction.NodeFsInodesFree) != want.Inodes {
				t.Errorf("inodes: %+v, want %d", got, want.Inodes)
			}
		})
	}
}

func TestCallsAtTheSameTime(t *testing.T) {
	n := newNode(t)
	var rows []eviction.Pod
	want := map[string]int64{}
	for i := range 40 {
		uid := fmt.Sprint("u", i)
		row := n.add(uid, []eviction.Volume{emptyDir("v")}, fakecri.Container{Name: "c", LayerBytes: 10})
		dir := "/kubelet/pods/" + uid + "/volumes/kubernetes.io~empty-dir/v"
		n.write(dir+"/f", 1+i*5000)
		rows, want[uid] = append(rows, row), 10+n.du(dir).Bytes
	}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 5 {
				got, err := n.measure(t.Context(), request(eviction.DetailPod+eviction.Detail(i%2), eviction.NodeFsAvailable, rows...))
				if err != nil {
					t.Error(err)
				}
				for uid, used := range want {
					if m := got[uid]; m.State != eviction.Measured || m.UsageFor(eviction.NodeFsAvailable) != used {
						t.Errorf("%s: %+v, want %d", uid, m, used)
					}
				}
				n.meter.Tidy()
			}
		})
	}
	wait.Wait()
}

// Pods come and go; what is remembered of them goes, too.
func TestMemoryStaysFlat(t *testing.T) {
	n := newNode(t)
	rows := make([]eviction.Pod, 2000)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	generation := func(g int) {
		for i := range rows {
			rows[i] = eviction.Pod{UID: fmt.Sprintf("u%d-%d", g, i), Namespace: "ns", Name: "p", Volumes: []eviction.Volume{emptyDir("a"), emptyDir("b")}}
		}
		got, err := n.measure(t.Context(), request(eviction.DetailPod, eviction.NodeFsAvailable, rows...))
		if err != nil || len(got) != len(rows) {
			t.Fatalf("%d answers, %v", len(got), err)
		}
		n.meter.trees.tidy(time.Now().Add(forgetAfter))
	}
	generation(0)
	first := heap()
	for g := range 10 {
		generation(g + 1)
	}
	last := heap()
	t.Logf("heap after 2,000 pods %d KiB, after 22,000 pods %d KiB", first>>10, last>>10)
	if grown := last - first; grown > 1<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
}
