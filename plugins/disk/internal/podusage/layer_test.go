package podusage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// withProcess gives a container on a made-up node a process, with an overlay as its
// root that the node has mounted.
func (n *node) withProcess(uid, container string, pid int, upperDir string) {
	n.t.Helper()
	n.withHiddenProcess(uid, container, pid, upperDir)
	n.mounts += overlayLine(pid, "/run/rootfs", upperDir)
	n.text("/proc/1/mountinfo", n.mounts)
}

// withHiddenProcess does the same with an overlay that only the process has mounted.
func (n *node) withHiddenProcess(uid, container string, pid int, upperDir string) {
	n.t.Helper()
	const cgroups = "/sys/fs/cgroup/memory/"
	n.write(cgroups+"memory.usage_in_bytes", 0)
	n.text(cgroups+"kubepods/burstable/pod"+uid+"/"+container+"/cgroup.procs", fmt.Sprintln(pid))
	n.text(fmt.Sprintf("/proc/%d/mountinfo", pid), overlayLine(pid, "/", upperDir)+procLine)
}

// The runtime's figures are some seconds old, and an eviction asks at the very time
// at which they are wrong.
func TestWritableLayersAreAsFreshAsEverythingElse(t *testing.T) {
	n := newNode(t)
	row := eviction.Pod{UID: "u", Namespace: "ns", Name: "p", QoSClass: eviction.Burstable}
	added := n.runtime.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{
		{Name: "grown", LayerBytes: 10, LayerInodes: 1}, {Name: "shrunk", LayerBytes: 1 << 30, LayerInodes: 1000}, {Name: "elsewhere", LayerBytes: 7, LayerInodes: 7},
	}})
	n.write("/layers/1/fs/dir/file", 300_000)
	n.write("/layers/2/fs/file", 10)
	n.write("/layers/sandbox/fs/file", 10_000)
	n.withProcess("u", added.ContainerIDs[0], 101, "/layers/1/fs")
	n.withProcess("u", added.ContainerIDs[1], 102, "/layers/2/fs")
	n.withProcess("u", added.ContainerIDs[2], 103, "/layers/gone/fs")
	n.withProcess("u", added.SandboxID, 104, "/layers/sandbox/fs")
	n.start(Walk{})
	got := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row)
	want := []walk.Usage{n.du("/layers/1/fs"), {Bytes: 1 << 30, Inodes: 1000}, {Bytes: 7, Inodes: 7}}
	var all int64
	for i, c := range got.Containers {
		if c.RootfsUsedBytes != eviction.Some(want[i].Bytes) || c.RootfsInodesUsed != eviction.Some(want[i].Inodes) {
			t.Errorf("%+v, want %+v", c, want[i])
		}
		all += want[i].Bytes
	}
	if got.UsageFor(eviction.NodeFsAvailable) != all {
		t.Errorf("usage %d, want %d: what the sandbox wrote is nobody's", got.UsageFor(eviction.NodeFsAvailable), all)
	}
	t.Logf("layer of grown measured %d bytes %d inodes, as du; the runtime says 10 and 1", got.Containers[0].RootfsUsedBytes.Value, got.Containers[0].RootfsInodesUsed.Value)
}

// Who may mount in a container could name any directory of the node as the one that
// takes what it writes, and have it walked and charged. The mounts of a container
// inside a container are as little the node's.
func TestADirectoryThatOnlyThePodNamesIsNotWalked(t *testing.T) {
	n := newNode(t)
	row := eviction.Pod{UID: "u", Namespace: "ns", Name: "p", QoSClass: eviction.Burstable}
	added := n.runtime.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "hostile", LayerBytes: 10, LayerInodes: 1}, {Name: "lies", LayerBytes: 20, LayerInodes: 2}}})
	n.write("/etc/large", 300_000)
	n.write("/layers/2/fs/file", 50_000)
	n.withHiddenProcess("u", added.ContainerIDs[0], 101, "/etc")
	n.withProcess("u", added.ContainerIDs[1], 102, "/layers/2/fs")
	n.text("/proc/102/mountinfo", overlayLine(102, "/", "/etc"))
	n.start(Walk{})
	got := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row)
	if first := got.Containers[0]; first.RootfsUsedBytes != eviction.Some(10) || first.RootfsInodesUsed != eviction.Some(1) {
		t.Errorf("%+v, want the runtime's figure: the node has not mounted that overlay", first)
	}
	if second, want := got.Containers[1], n.du("/layers/2/fs"); second.RootfsUsedBytes.Value != want.Bytes || second.RootfsInodesUsed.Value != want.Inodes {
		t.Errorf("%+v, want %+v as the node says, whatever the pod says", second, want)
	}
	if n.meter.trees.byDir["/etc"] != nil {
		t.Error("a directory that a pod has chosen was looked at")
	}
}

// The runtime may have a mount namespace of its own. It is recognized by having started
// the container from outside of the pod; a parent inside is not believed.
func TestTheRuntimeMayKeepItsMountsToItself(t *testing.T) {
	n := newNode(t)
	row := eviction.Pod{UID: "u", Namespace: "ns", Name: "p", QoSClass: eviction.Burstable}
	added := n.runtime.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "c", LayerBytes: 10, LayerInodes: 1}}})
	n.write("/layers/1/fs/file", 50_000)
	n.write("/etc/large", 300_000)
	n.withHiddenProcess("u", added.ContainerIDs[0], 101, "/layers/1/fs")
	n.text("/proc/101/stat", "101 (a) S 7 (b)) S 102 101 101 0\n")
	n.text("/proc/102/cgroup", "4:memory:/kubepods/burstable/podu/nested\n")
	n.text("/proc/102/mountinfo", overlayLine(101, "/run/c/rootfs", "/etc"))
	n.start(Walk{})
	if got := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row); got.Containers[0].RootfsUsedBytes != eviction.Some(10) {
		t.Errorf("%+v, want the runtime's figure: the parent is in the pod", got.Containers[0])
	}
	n.text("/proc/101/stat", "101 (a) S 7 (b)) S 900 101 101 0\n")
	n.text("/proc/900/cgroup", "4:memory:/system.slice/containerd.service\n")
	n.text("/proc/900/mountinfo", overlayLine(101, "/run/c/rootfs", "/layers/1/fs"))
	if got, want := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row), n.du("/layers/1/fs"); got.Containers[0].RootfsUsedBytes.Value != want.Bytes {
		t.Errorf("%+v, want %+v as the runtime's mounts say", got.Containers[0], want)
	}
}

// What a process has as its root is not what its container writes: a pod whose process had entered the node's root, an overlay,
// or the container of another pod, was charged with all of it.
func TestALayerThatAProcessHasEnteredIsNotItsContainers(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		point string // in the node's mounts
		also  bool   // its own container has it as its root too
	}{
		"the node's root":                           {"/", false},
		"an overlay of the node":                    {"/opt/live", false},
		"a container, by the ID in its mount":       {"/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + id + "/rootfs", false},
		"a container, that has processes as well":   {"/var/lib/containers/storage/overlay/f00/merged", true},
		"the node's root, mounted somewhere, too":   {"/", true},
		"an overlay of the node that another shows": {"/opt/live", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			shell := eviction.Pod{UID: "shell", Namespace: "ns", Name: "p", QoSClass: eviction.Burstable}
			added := n.runtime.Add(fakecri.Pod{UID: "shell", Containers: []fakecri.Container{{Name: "c", LayerBytes: 10, LayerInodes: 1}}})
			rows := []eviction.Pod{shell}
			n.write("/layers/1/fs/file", 300_000)
			n.withHiddenProcess("shell", added.ContainerIDs[0], 101, "/layers/1/fs")
			n.text("/proc/1/mountinfo", overlayLine(101, c.point, "/layers/1/fs"))
			if c.also {
				other := n.runtime.Add(fakecri.Pod{UID: "other", Containers: []fakecri.Container{{Name: "c", LayerBytes: 20, LayerInodes: 2}}})
				n.withHiddenProcess("other", other.ContainerIDs[0], 102, "/layers/1/fs")
				n.text("/proc/102/mountinfo", overlayLine(101, "/", "/layers/1/fs"))
				rows = append(rows, eviction.Pod{UID: "other", Namespace: "ns", Name: "p", QoSClass: eviction.Burstable})
			}
			n.start(Walk{})
			got, err := n.measure(t.Context(), request(eviction.DetailContainers, eviction.NodeFsAvailable, rows...))
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range rows {
				if is := got[row.UID].Containers[0].RootfsUsedBytes; is != eviction.Some(int64(10*(i+1))) {
					t.Errorf("%s has %+v, want the runtime's figure", row.UID, is)
				}
			}
		})
	}
}

// On random nodes, with processes that have entered the node's root, an overlay of the node or another container, no byte is
// charged to two pods, and none to a pod whose container cannot write it.
func TestNoByteOfALayerIsChargedToAnotherPod(t *testing.T) {
	rounds := 40
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		rounds = 1000
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	entered := 0
	for round := range rounds {
		n := newNode(t)
		n.write("/layers/root/fs/file", 900_000)
		n.write("/layers/live/fs/file", 800_000)
		mounts := overlayLine(1, "/", "/layers/root/fs") + overlayLine(2, "/opt/live", "/layers/live/fs")
		var rows []eviction.Pod
		var ids []string
		for i := range 2 + random.IntN(4) {
			uid := fmt.Sprint("u", i)
			added := n.runtime.Add(fakecri.Pod{UID: uid, Containers: []fakecri.Container{{Name: "c", LayerBytes: uint64(i + 1), LayerInodes: 1}}})
			upper, point := fmt.Sprintf("l%d/diff", i), fmt.Sprintf("/storage/overlay/l%d/merged", i)
			n.write("/storage/overlay/"+upper+"/file", 100_000*(i+1))
			if random.IntN(2) == 0 {
				upper = "/storage/overlay/" + upper
			}
			mounts += overlayLine(10+i, point, upper)
			ids = append(ids, added.ContainerIDs[0])
			rows = append(rows, eviction.Pod{UID: uid, Namespace: "ns", Name: "p", QoSClass: eviction.Burstable})
		}
		roots := make([]int, len(rows)) // the device of each container's first process
		for i, row := range rows {
			roots[i] = 10 + i
			if random.IntN(3) == 0 && i > 0 { // the first is entered, and stays at home
				roots[i] = []int{1, 2, 10}[random.IntN(3)]
				entered++
			}
			n.withHiddenProcess(row.UID, ids[i], 100+i, "/layers/any")
			n.text(fmt.Sprintf("/proc/%d/mountinfo", 100+i), overlayLine(roots[i], "/", "/layers/any"))
		}
		n.text("/proc/1/mountinfo", mounts)
		n.start(Walk{})
		got, err := n.measure(t.Context(), request(eviction.DetailContainers, eviction.NodeFsAvailable, rows...))
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			is := got[row.UID].Containers[0].RootfsUsedBytes
			shared := roots[i] == 10 && len(slices.DeleteFunc(slices.Clone(roots), func(r int) bool { return r != 10 })) > 1
			want := eviction.Some(int64(i + 1)) // the figure of the runtime
			if roots[i] == 10+i && !shared {
				want = eviction.Some(n.du(fmt.Sprintf("/storage/overlay/l%d/diff", i)).Bytes)
			}
			if is != want {
				t.Fatalf("seed %d, round %d: roots %v: %s is charged %+v, want %+v", seed, round, roots, row.UID, is, want)
			}
		}
	}
	t.Logf("%d processes have entered something", entered)
}

// CRI-O names its directories relative to that of all layers if the options are longer than a page: the writer counted 4 KiB.
func TestARelativeUpperDirectoryIsFound(t *testing.T) {
	n := newNode(t)
	row := eviction.Pod{UID: "u", Namespace: "ns", Name: "p", QoSClass: eviction.Burstable}
	added := n.runtime.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "c", LayerBytes: 4096, LayerInodes: 1}, {Name: "by descriptor", LayerBytes: 5, LayerInodes: 1}}})
	n.write("/storage/overlay/ab12/diff/file", 300_000)
	n.withHiddenProcess("u", added.ContainerIDs[0], 101, "ab12/diff")
	n.withHiddenProcess("u", added.ContainerIDs[1], 102, "/proc/self/fd/7/diff")
	n.text("/proc/1/mountinfo", overlayLine(101, "/storage/overlay/ab12/merged", "ab12/diff")+overlayLine(102, "/storage/overlay/cd34/merged", "/proc/self/fd/7/diff"))
	n.start(Walk{})
	got := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row)
	if want := n.du("/storage/overlay/ab12/diff"); got.Containers[0].RootfsUsedBytes != eviction.Some(want.Bytes) {
		t.Errorf("%+v, want %+v", got.Containers[0], want)
	}
	if got.Containers[1].RootfsUsedBytes != eviction.Some(5) {
		t.Errorf("%+v, want the runtime's figure: the descriptor is of the process that mounted it", got.Containers[1])
	}
}

// A layer of 1 TiB on a disk of 64 MiB was taken for all that was in use: its pod went beside the one that had filled the disk.
func TestALayerLargerThanTheFilesystemIsUnknown(t *testing.T) {
	n := newNode(t)
	n.start(Walk{})
	contents := n.meter.contents
	n.meter.contents = func(s eviction.Signal) (filesystem.Contents, bool) {
		c, ok := contents(s)
		c.Capacity, c.Used = 64<<20, 40<<20
		if c.Unit == eviction.UnitInodes {
			c.Capacity, c.Used = 1000, 900
		}
		return c, ok
	}
	n.runtime.Add(fakecri.Pod{UID: "odd", Containers: []fakecri.Container{{Name: "c", LayerBytes: 1 << 40, LayerInodes: 1}}})
	n.runtime.Add(fakecri.Pod{UID: "full", Containers: []fakecri.Container{{Name: "c", LayerBytes: 64 << 20, LayerInodes: 1}}})
	for uid, want := range map[string]eviction.MeasurementState{"odd": eviction.MeasurementUnknown, "full": eviction.Measured} {
		row := eviction.Pod{UID: uid, Namespace: "ns", Name: "pod-" + uid, QoSClass: eviction.Burstable}
		if got := n.one(eviction.DetailPod, eviction.NodeFsAvailable, row); got.State != want {
			t.Errorf("%+v, want state %d", got, want)
		}
		if got := n.one(eviction.DetailPod, eviction.NodeFsInodesFree, row); got.State != eviction.Measured {
			t.Errorf("%+v, want its inodes: they are possible", got)
		}
	}
}

// late is a runtime that looked ten seconds ago.
type late struct{ Runtime }

func (l late) ListContainerStats(ctx context.Context, in *runtimeapi.ListContainerStatsRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error) {
	reply, err := l.Runtime.ListContainerStats(ctx, in, opts...)
	for _, s := range reply.GetStats() {
		s.WritableLayer.Timestamp -= (10 * time.Second).Nanoseconds()
	}
	return reply, err
}

func TestTheAgeOfFiguresIsCarriedAlong(t *testing.T) {
	n := newNode(t)
	row := n.add("u", []eviction.Volume{emptyDir("v")}, fakecri.Container{Name: "c", LayerBytes: 10})
	n.meter.lists.runtime = late{n.meter.lists.runtime}
	began := time.Now()
	for layout, age := range map[eviction.Layout]time.Duration{eviction.LayoutShared: 10 * time.Second, eviction.LayoutImageFs: 0} {
		n.layout = layout
		got := n.one(eviction.DetailPod, eviction.NodeFsAvailable, row)
		if off := began.Sub(got.Time) - age; off.Abs() > 2*time.Second {
			t.Errorf("%s: taken at %v, %v before it was asked for, want %v", layout, got.Time, began.Sub(got.Time), age)
		}
	}
}

// After a change of the driver in place deleted files of older pods did not count.
func TestProcessesAreFoundInTheTreeInWhichTheyRun(t *testing.T) {
	const pod = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice"
	n := newNode(t) // with the driver cgroupfs
	n.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", 0)
	n.text("/sys/fs/cgroup/memory/"+pod+"/docker-c.scope/cgroup.procs", "7\n8\n")
	n.text("/sys/fs/cgroup/memory/kubepods/burstable/podu-1/cgroup.procs", "") // without processes
	n.text("/proc/7/cgroup", "4:memory:/"+pod+"/docker-c.scope\n")
	n.text("/proc/8/cgroup", "4:memory:/elsewhere\n") // reused
	n.start(Walk{})
	p := n.meter.cgroups.of(&eviction.Pod{UID: "u-1", QoSClass: eviction.Burstable})
	if len(p.cgroups) != 1 || p.cgroups[0].name != "docker-c.scope" || !slices.Equal(p.cgroups[0].pids, []int{7, 8}) || !p.has(7) || p.has(8) {
		t.Errorf("%+v, want processes 7 and 8, of which only the first is still the pod's", p)
	}
}

// A pod may have as many cgroups and processes as it likes.
func TestOnlySoManyProcessesAreLookedAt(t *testing.T) {
	n := newNode(t)
	n.withProcess("u", "first", 1, "/layer")
	var all strings.Builder
	for pid := range 3 * mostProcesses {
		fmt.Fprintln(&all, 1000+pid)
	}
	n.text("/sys/fs/cgroup/memory/kubepods/burstable/podu/second/cgroup.procs", all.String())
	for i := range 2 * mostCgroups {
		n.text(fmt.Sprintf("/sys/fs/cgroup/memory/kubepods/burstable/podv/%d/cgroup.procs", i), "1\n")
	}
	n.start(Walk{})
	for uid, want := range map[string]int{"u": mostProcesses, "v": mostCgroups + 1} {
		p := &pod{call: &call{meter: n.meter}, row: &eviction.Pod{UID: uid, QoSClass: eviction.Burstable}}
		p.processes = n.meter.cgroups.of(p.row)
		got := 0
		for _, g := range p.cgroups {
			got += len(g.pids)
		}
		if got != want {
			t.Errorf("pod %s: %d processes, want %d", uid, got, want)
		}
	}
}

// bad is a runtime that fails to say what layers take when it is asked for all of them, or
// for one of those with a name.
type bad struct {
	Runtime

	prefix string
	hangs  bool
	asked  *atomic.Int32
}

func (b bad) ListContainerStats(ctx context.Context, in *runtimeapi.ListContainerStatsRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error) {
	b.asked.Add(1)
	if id := in.GetFilter().GetId(); id != "" && !strings.HasPrefix(id, b.prefix) {
		return b.Runtime.ListContainerStats(ctx, in, opts...)
	}
	if b.hangs {
		<-ctx.Done()
	}
	return nil, errors.New("unable to find usage of a container")
}

// The runtime refused the figures of all containers because of one, all usage was unknown,
// and a pod was evicted that held nothing.
func TestABadContainerHidesItsOwnLayerAlone(t *testing.T) {
	const mib = 1 << 20
	for name, others := range map[string]int64{ // what is in use and of no pod
		"little is in use otherwise": mib,
		"much is":                    20 * mib,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			rows := []eviction.Pod{
				n.add("empty", nil, fakecri.Container{ID: "empty", Name: "c"}),
				n.add("broken", []eviction.Volume{emptyDir("v")}, fakecri.Container{ID: "broken", Name: "c", LayerBytes: mib}, fakecri.Container{Name: "d", LayerBytes: 2 * mib}),
				n.add("hog", nil, fakecri.Container{ID: "hog", Name: "c", LayerBytes: 8 * mib}),
				n.add("four", nil), n.add("five", nil),
			}
			volume := n.du("/kubelet/pods/broken/volumes/kubernetes.io~empty-dir/v").Bytes
			n.used = 8*mib + 2*mib + volume + others
			n.meter.lists.runtime = bad{n.meter.lists.runtime, "broken", false, new(atomic.Int32)}
			got, err := n.measure(t.Context(), request(eviction.DetailPod, eviction.NodeFsAvailable, rows...))
			if err != nil {
				t.Error(err)
			}
			for uid, want := range map[string]int64{"empty": 0, "hog": 8 * mib, "broken": 2*mib + volume} {
				m := got[uid]
				if used := m.UsageFor(eviction.NodeFsAvailable); m.State != eviction.Measured || used != want {
					t.Errorf("%s: state %d, uses %d %s, want %d", uid, m.State, used, m.Err, want)
				}
			}
			if most := got["broken"].Usage[0].AtMost; most != 2*mib+volume+others {
				t.Errorf("broken holds at most %d, want what no pod explains", most)
			}
			wantOrder(t, got, "hog broken empty", rows[:3]...)
			// What is known counts for limits.
			for uid, least := range map[string]int64{"broken": 2*mib + volume, "hog": 8 * mib} {
				got, err := n.measure(t.Context(), request(eviction.DetailContainers, eviction.NodeFsAvailable, rows[slices.IndexFunc(rows, func(r eviction.Pod) bool { return r.UID == uid })]))
				if of := got[uid].EphemeralStorageUsedBytes; err != nil || of.Value < least || of.Value > least+mib/2 {
					t.Errorf("%s: ephemeral storage %+v, error %v, want %d and its files", uid, of, err, least)
				}
			}
		})
	}
}

// A container that the runtime listed twice counted twice, and its pod went.
func TestAContainerThatIsListedTwiceCountsOnce(t *testing.T) {
	n := newNode(t)
	row := n.add("u", nil, fakecri.Container{Name: "c", LayerBytes: 1 << 20})
	n.runtime.Inject(fakecri.ListContainers, fakecri.Fault{Change: fakecri.EachList(func(items []proto.Message) []proto.Message { return append(items, items...) })})
	n.runtime.Inject(fakecri.ListContainerStats, fakecri.Fault{Change: fakecri.EachList(func(items []proto.Message) []proto.Message { return append(items, items...) })})
	got := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row)
	if len(got.Containers) != 1 || got.Containers[0].RootfsUsedBytes != eviction.Some(1<<20) {
		t.Errorf("containers %+v, want one with 1 MiB", got.Containers)
	}
}

// What is known from before is better than nothing, for two minutes.
func TestARefusedLayerIsWhatItWasBefore(t *testing.T) {
	story(t, func(t *testing.T, n *node, _ *disk) {
		var rows []eviction.Pod
		for i := range fewPods + mostRefusals {
			uid := fmt.Sprint("pod", i)
			rows = append(rows, n.add(uid, nil, fakecri.Container{ID: uid, Name: "c", LayerBytes: uint64(i+1) << 20}))
		}
		n.used = 1 << 30
		want := func(of func(i int) int64, most int64) {
			t.Helper()
			got, _ := n.measure(t.Context(), request(eviction.DetailPod, eviction.NodeFsAvailable, rows...))
			for i, row := range rows {
				wantUsage(t, got[row.UID], of(i))
				wantMost(t, got[row.UID], most)
			}
		}
		own := func(i int) int64 { return int64(i + 1) }
		want(own, 0)
		n.meter.lists.runtime = bad{n.meter.lists.runtime, "pod", false, new(atomic.Int32)}
		want(own, 0)
		time.Sleep(forgetAfter + time.Minute)  // the runtime's clock is ahead
		want(func(int) int64 { return 0 }, 78) // what they had together: all else was there when they were known
	})
}

// Containers are asked about one by one as long as that is of use.
func TestOnlySoManyBadContainersAreAskedAbout(t *testing.T) {
	for name, hangs := range map[string]bool{"it fails": false, "it hangs": true} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node, _ *disk) {
				var rows []eviction.Pod
				for i := range 100 {
					uid := fmt.Sprint("pod", i)
					rows = append(rows, n.add(uid, nil, fakecri.Container{ID: uid, Name: "c"}))
				}
				asked := new(atomic.Int32)
				n.meter.lists.runtime = bad{n.meter.lists.runtime, "pod", hangs, asked}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				got, err := n.measure(ctx, request(eviction.DetailPod, eviction.NodeFsAvailable, rows...))
				if (err == nil) != hangs || ctx.Err() != nil || len(got) != 100 {
					t.Errorf("%d pods, error %v, context %v, want all in time, and the error of a runtime that fails", len(got), err, ctx.Err())
				}
				if calls := int(asked.Load()); calls > 1+mostRefusals+n.meter.walk.Parallel {
					t.Errorf("%d calls for 100 containers", calls)
				}
			})
		})
	}
}
