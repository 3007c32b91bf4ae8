package podusage

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakecri"
)

const (
	proc     = "36 24 0:22 / /proc rw - proc proc rw\n"
	rootfs   = "35 24 0:44 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/l/1:/l/2,upperdir=%s,workdir=/w,xino=off\n"
	plainDir = "40 24 8:1 /snapshots/9/fs / rw shared:1 - ext4 /dev/sda1 rw,upperdir=/not/an/overlay\n"
)

func TestParseUpperDir(t *testing.T) {
	for name, c := range map[string]struct{ mounts, want string }{
		"containerd's":              {fmt.Sprintf(rootfs, "/var/lib/s/42/fs") + proc, "/var/lib/s/42/fs"},
		"escaped":                   {fmt.Sprintf(rootfs, `/a\040b\054c\134`), `/a b,c\`},
		"the last one is on top":    {fmt.Sprintf(rootfs, "/below") + fmt.Sprintf(rootfs, "/above"), "/above"},
		"something else is on top":  {fmt.Sprintf(rootfs, "/below") + plainDir, ""},
		"no overlay":                {plainDir + proc, ""},
		"a read-only overlay":       {"35 24 0:44 / / ro - overlay overlay ro,lowerdir=/l/1:/l/2\n", ""},
		"relative to who knows":     {fmt.Sprintf(rootfs, "42/fs"), ""},
		"an overlay on another dir": {strings.Replace(fmt.Sprintf(rootfs, "/u"), " / / ", " / /mnt ", 1), ""},
		"with optional fields":      {"35 24 0:44 / / rw shared:1 master:2 - overlay o rw,upperdir=/u\n", "/u"},
		"nothing":                   {"", ""},
		"half a line":               {"35 24 0:44 / /", ""},
		"half a filesystem":         {"35 24 0:44 / / rw - overlay", ""},
	} {
		got, ok := parseUpperDir(strings.NewReader(c.mounts))
		if got != c.want && ok || ok != (c.want != "") {
			t.Errorf("%s: got %q %v, want %q", name, got, ok, c.want)
		}
	}
}

func FuzzParseUpperDir(f *testing.F) {
	for _, seed := range []string{proc, fmt.Sprintf(rootfs, `/a\040b`), plainDir, " - overlay ", "a b c d / - overlay o upperdir=/\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, mounts string) {
		if dir, ok := parseUpperDir(strings.NewReader(mounts)); ok && !path.IsAbs(dir) {
			t.Errorf("%q is not absolute", dir)
		}
	})
}

// withProcess gives a container a process on a made-up node.
func (n *node) withProcess(uid, container string, pid int, upperDir string) {
	n.t.Helper()
	const cgroups = "/sys/fs/cgroup/memory/"
	n.write(cgroups+"memory.usage_in_bytes", 0)
	n.text(cgroups+"kubepods/burstable/pod"+uid+"/"+container+"/cgroup.procs", fmt.Sprintln(pid))
	n.text(fmt.Sprintf("/proc/%d/mountinfo", pid), fmt.Sprintf(rootfs, upperDir)+proc)
	n.mkdir(fmt.Sprintf("/proc/%d/root", pid))
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
	n.withProcess("u", "sandbox", 104, "/layers/sandbox/fs")
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
	n.meter.runtime = late{n.meter.runtime}
	began := time.Now()
	for layout, age := range map[eviction.Layout]time.Duration{eviction.LayoutShared: 10 * time.Second, eviction.LayoutImageFs: 0} {
		n.layout = layout
		got := n.one(eviction.DetailPod, eviction.NodeFsAvailable, row)
		if off := began.Sub(got.Time) - age; off.Abs() > 2*time.Second {
			t.Errorf("%s: taken at %v, %v before it was asked for, want %v", layout, got.Time, began.Sub(got.Time), age)
		}
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
		p.findCgroups()
		got := 0
		for _, g := range p.cgroups {
			got += len(g.pids)
		}
		if got != want {
			t.Errorf("pod %s: %d processes, want %d", uid, got, want)
		}
	}
}
