package podusage

import (
	"errors"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

var allVolumes = []eviction.Volume{
	emptyDir("cache"),
	{Name: "shm", Kind: "emptyDir", Medium: "Memory"},
	{Name: "config", Kind: "configMap", CountsForRanking: true},
	{Name: "token", Kind: "projected"},
	{Name: "password", Kind: "secret"},
	{Name: "labels", Kind: "downwardAPI"},
	{Name: "host", Kind: "hostPath", CountsForRanking: true},
	{Name: "claim", Kind: "persistentVolumeClaim"},
	emptyDir("not-set-up"),
}

// settled is a pod with something in every place that counts, and in some that do
// not.
func settled(t *testing.T, n *node) eviction.Pod {
	t.Helper()
	row := n.add("u", allVolumes,
		fakecri.Container{Name: "app", LayerBytes: 7000, LayerInodes: 7},
		fakecri.Container{Name: "sidecar", LayerBytes: 500, LayerInodes: 5},
		fakecri.Container{Name: "init", Exited: true, LayerBytes: 1 << 30, LayerInodes: 1 << 20})
	const pod, logs = "/kubelet/pods/u", "/logs/ns_pod-u_u"
	testos.Remove(t, n.path(pod+"/volumes/kubernetes.io~empty-dir/not-set-up"))
	n.write(pod+"/etc-hosts", 200)
	cache := pod + "/volumes/kubernetes.io~empty-dir/cache"
	n.write(cache+"/a/b/c/file", 100_000)
	for _, err := range []error{
		os.Link(n.path(cache+"/a/b/c/file"), n.path(cache+"/link")),
		os.Symlink(n.root, n.path(cache+"/everything")),
		syscall.Mkfifo(n.path(cache+"/fifo"), 0o600),
		os.Truncate(n.path(n.write(cache+"/sparse", 10)), 1<<30),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n.write(pod+"/volumes/kubernetes.io~empty-dir/shm/file", 9000)
	n.write(pod+"/volumes/kubernetes.io~configmap/config/..data/key", 10)
	n.write(pod+"/volumes/kubernetes.io~projected/token/token", 10)
	n.write(pod+"/volumes/kubernetes.io~secret/password/key", 10)
	n.write(pod+"/volumes/kubernetes.io~downward-api/labels/labels", 10)
	n.write(pod+"/volumes/kubernetes.io~csi/claim/file", 1<<20)
	n.write(logs+"/app/0.log", 30_000)
	n.write(logs+"/app/0.log.20260101-000000.gz", 5000)
	n.write(logs+"/app/below/file", 1<<20) // the kubelet does not look there
	n.write(logs+"/sidecar/2.log", 1)
	n.write(logs+"/init/0.log", 50_000)
	n.write(logs+"/dropped.log", 4000)
	return row
}

func TestFiguresAreThoseOfDuAndTheRuntime(t *testing.T) {
	n := newNode(t)
	row := settled(t, n)
	const pod, logs = "/kubelet/pods/u", "/logs/ns_pod-u_u"
	got := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row)

	volume := func(name, plugin string) (eviction.VolumeMeasurement, walk.Usage) {
		used := n.du(pod + "/volumes/kubernetes.io~" + plugin + "/" + name)
		return eviction.VolumeMeasurement{Name: name, UsedBytes: eviction.Some(used.Bytes), InodesUsed: eviction.Some(used.Inodes)}, used
	}
	cache, cacheUsed := volume("cache", "empty-dir")
	shm, _ := volume("shm", "empty-dir")
	config, configUsed := volume("config", "configmap")
	token, _ := volume("token", "projected")
	password, _ := volume("password", "secret")
	labels, _ := volume("labels", "downward-api")
	app := n.du(logs+"/app/0.log", logs+"/app/0.log.20260101-000000.gz")
	sidecar := n.du(logs + "/sidecar/2.log")
	beside := n.du(logs+"/dropped.log", pod+"/etc-hosts")
	ephemeral := 7000 + 500 + app.Bytes + sidecar.Bytes + cacheUsed.Bytes + configUsed.Bytes
	// The kubelet does not count these, but they are the pod's.
	more := 1<<30 + n.du(logs+"/app/below/file", logs+"/init/0.log", pod+"/volumes/kubernetes.io~csi/claim/file").Bytes
	want := eviction.Measurement{
		UID: "u", State: eviction.Measured,
		Usage:                     []eviction.SignalUsage{{Signal: eviction.NodeFsAvailable, Value: ephemeral + beside.Bytes + more}},
		EphemeralStorageUsedBytes: eviction.Some(ephemeral + beside.Bytes),
		Containers: []eviction.ContainerMeasurement{
			{
				Name: "app", RootfsUsedBytes: eviction.Some(7000), RootfsInodesUsed: eviction.Some(7),
				LogsUsedBytes: eviction.Some(app.Bytes), LogsInodesUsed: eviction.Some(app.Inodes),
			},
			{
				Name: "sidecar", RootfsUsedBytes: eviction.Some(500), RootfsInodesUsed: eviction.Some(5),
				LogsUsedBytes: eviction.Some(sidecar.Bytes), LogsInodesUsed: eviction.Some(sidecar.Inodes),
			},
		},
		Volumes: []eviction.VolumeMeasurement{cache, shm, config, token, password, labels},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(eviction.Measurement{}, "Time")); diff != "" {
		t.Errorf("measurement (-want +got):\n%s", diff)
	}
	for _, v := range got.Volumes {
		t.Logf("volume %-9s measured %7d bytes %2d inodes, as du", v.Name, v.UsedBytes.Value, v.InodesUsed.Value)
	}
	t.Logf("logs of app      measured %7d bytes %2d inodes, as du", got.Containers[0].LogsUsedBytes.Value, got.Containers[0].LogsInodesUsed.Value)
}

// What counts for which signal is the kubelet's rule, which has its own test: here
// only what is looked at for it.
func TestUsageByLayout(t *testing.T) {
	n := newNode(t)
	row := settled(t, n)
	const dir = "/kubelet/pods/u/volumes/kubernetes.io~"
	logs := n.du("/logs/ns_pod-u_u/app/0.log", "/logs/ns_pod-u_u/app/0.log.20260101-000000.gz", "/logs/ns_pod-u_u/sidecar/2.log",
		"/logs/ns_pod-u_u/app/below/file", "/logs/ns_pod-u_u/init/0.log", "/logs/ns_pod-u_u/dropped.log")
	local := n.du(dir+"empty-dir/cache", dir+"configmap/config", "/kubelet/pods/u/etc-hosts",
		dir+"empty-dir/shm/file", dir+"projected/token/token", dir+"secret/password/key", dir+"downward-api/labels/labels", dir+"csi/claim/file")
	layers := walk.Usage{Bytes: 7500 + 1<<30, Inodes: 12 + 1<<20}
	files := sum(logs, local)
	all := sum(layers, files)
	for _, c := range []struct {
		layout eviction.Layout
		signal eviction.Signal
		want   int64
	}{
		{eviction.LayoutShared, eviction.NodeFsAvailable, all.Bytes},
		{eviction.LayoutShared, eviction.ImageFsInodesFree, all.Inodes},
		{eviction.LayoutImageFs, eviction.NodeFsAvailable, files.Bytes},
		{eviction.LayoutImageFs, eviction.NodeFsInodesFree, files.Inodes},
		{eviction.LayoutImageFs, eviction.ImageFsAvailable, layers.Bytes},
		{eviction.LayoutImageFs, eviction.ContainerFsInodesFree, layers.Inodes},
		{eviction.LayoutContainerFs, eviction.NodeFsAvailable, all.Bytes},
		{eviction.LayoutContainerFs, eviction.ContainerFsAvailable, all.Bytes},
		{eviction.LayoutContainerFs, eviction.ImageFsAvailable, 0},
	} {
		n.layout = c.layout
		got := n.one(eviction.DetailPod, c.signal, row)
		if got.State != eviction.Measured || got.UsageFor(c.signal) != c.want {
			t.Errorf("%s, %s: got %+v, want %d", c.layout, c.signal, got, c.want)
		}
		if got.Containers != nil || got.Volumes != nil {
			t.Errorf("%s, %s: details that nobody asked for", c.layout, c.signal)
		}
	}
	n.layout = 0
	if _, err := n.measure(t.Context(), request(eviction.DetailPod, eviction.NodeFsAvailable, row)); !errors.Is(err, errLayout) {
		t.Errorf("error is %v, want the layout not known", err)
	}
}

// A runtime said that a layer has 7.9Ei, and its pod went first. Negative, it ranked last.
func TestAFigureOfTheRuntimeThatCannotBeIsNone(t *testing.T) {
	n := newNode(t)
	row := n.add("u", []eviction.Volume{emptyDir("v")},
		fakecri.Container{Name: "a", LayerBytes: math.MaxUint64, LayerInodes: math.MaxUint64},
		fakecri.Container{Name: "b", LayerBytes: math.MaxInt64, LayerInodes: math.MaxInt64},
		fakecri.Container{Name: "c", LayerBytes: 5000, LayerInodes: 5},
		fakecri.Container{Name: "d", Exited: true, LayerBytes: math.MaxInt64})
	n.write("/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v/f", 5000)
	got := n.one(eviction.DetailContainers, eviction.NodeFsAvailable, row)
	want := 5000 + n.du("/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v").Bytes
	if used := got.UsageFor(eviction.NodeFsAvailable); used != want || got.EphemeralStorageUsedBytes.Value != want {
		t.Errorf("usage %d, ephemeral storage %d, want both %d", used, got.EphemeralStorageUsedBytes.Value, want)
	}
	for _, c := range []fakecri.Container{{Name: "c", LayerBytes: math.MaxInt64}, {Name: "c", Exited: true, LayerBytes: math.MaxUint64}, {Name: "c", LayerBytes: 1, LayerInodes: 1 << 61}} {
		bad := n.add("bad", nil, c)
		if m := n.one(eviction.DetailPod, eviction.NodeFsAvailable, bad); m.State != eviction.MeasurementUnknown || !strings.Contains(m.Err, "layer of container c: ") {
			t.Errorf("%+v: %+v, want the pod unknown for its rank, with the reason", c, m)
		}
		n.runtime.Remove("bad")
	}
	for _, c := range got.Containers {
		if want := (eviction.Figure{Value: 5000, OK: true}); c.Name == "c" && c.RootfsUsedBytes != want || c.Name != "c" && (c.RootfsUsedBytes.OK || c.RootfsInodesUsed.OK) {
			t.Errorf("container %s: %+v", c.Name, c)
		}
	}
}

func TestWhatIsKnownOfAPod(t *testing.T) {
	down := fakecri.Fault{Err: errors.New("runtime is down")}
	for name, c := range map[string]struct {
		layout eviction.Layout
		down   bool
		pod    func(n *node) eviction.Pod
		want   eviction.MeasurementState
		says   string
	}{
		"nobody knows it": {
			pod:  func(*node) eviction.Pod { return eviction.Pod{UID: "u", Namespace: "ns", Name: "gone"} },
			want: eviction.NoStats,
		},
		"nobody knows it, but the runtime was not asked": {
			down: true, layout: eviction.LayoutImageFs,
			pod:  func(*node) eviction.Pod { return eviction.Pod{UID: "u", Namespace: "ns", Name: "gone"} },
			want: eviction.MeasurementUnknown, says: "the runtime was not asked",
		},
		"only the disk knows it: between two restarts": {
			pod: func(n *node) eviction.Pod {
				row := n.add("u", []eviction.Volume{emptyDir("v")})
				n.runtime.Remove("u")
				return row
			},
			want: eviction.Measured,
		},
		"only the runtime knows it": {
			pod: func(n *node) eviction.Pod {
				n.runtime.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "c"}}})
				return eviction.Pod{UID: "u", Namespace: "ns", Name: "p"}
			},
			want: eviction.Measured,
		},
		"writable layers count and the runtime is down": {
			down: true,
			pod:  func(n *node) eviction.Pod { return n.add("u", nil, fakecri.Container{Name: "c"}) },
			want: eviction.MeasurementUnknown, says: "runtime is down",
		},
		"only files count and the runtime is down": {
			down: true, layout: eviction.LayoutImageFs,
			pod:  func(n *node) eviction.Pod { return n.add("u", nil, fakecri.Container{Name: "c"}) },
			want: eviction.Measured,
		},
		"its name leads elsewhere": {
			pod:  func(*node) eviction.Pod { return eviction.Pod{UID: "..", Namespace: "ns", Name: "p"} },
			want: eviction.MeasurementUnknown, says: "plain file name",
		},
		"so does its volume's": {
			pod: func(*node) eviction.Pod {
				return eviction.Pod{UID: "u", Namespace: "ns", Name: "p", Volumes: []eviction.Volume{emptyDir("../../../u2")}}
			},
			want: eviction.MeasurementUnknown, says: "plain file name",
		},
		"a volume is no directory": {
			pod: func(n *node) eviction.Pod {
				row := n.add("u", nil)
				row.Volumes = []eviction.Volume{emptyDir("v")}
				n.mkdir("/kubelet/pods/u/volumes/kubernetes.io~empty-dir")
				if err := os.Symlink(n.root, n.path("/kubelet/pods/u/volumes/kubernetes.io~empty-dir/v")); err != nil {
					n.t.Fatal(err)
				}
				return row
			},
			want: eviction.MeasurementUnknown, says: "volume v",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if c.layout != 0 {
				n.layout = c.layout
			}
			row := c.pod(n)
			if c.down {
				n.runtime.Inject(fakecri.ListContainers, down)
			}
			got, err := n.measure(t.Context(), request(eviction.DetailPod, eviction.NodeFsAvailable, row))
			if c.down != (err != nil) {
				t.Errorf("error is %v with the runtime down: %v", err, c.down)
			}
			if m := got[row.UID]; m.State != c.want || !strings.Contains(m.Err, c.says) || c.says == "" && m.Err != "" {
				t.Errorf("got %+v, want state %d and an error with %q", m, c.want, c.says)
			}
		})
	}
}

// The disk below kubeletRootDir was unmounted, or the kubelet's root was elsewhere: pods were measured as
// their logs alone, and one with 1 MiB of log went.
func TestAPodWithoutItsDirectoryIsUnknownAndNotSmall(t *testing.T) {
	for name, c := range map[string]struct {
		volumes []eviction.Volume
		running bool
		want    eviction.MeasurementState
	}{
		"an emptyDir":                  {[]eviction.Volume{emptyDir("v")}, true, eviction.MeasurementUnknown},
		"a token":                      {[]eviction.Volume{{Name: "token", Kind: "projected"}}, true, eviction.MeasurementUnknown},
		"a pod that has not begun":     {[]eviction.Volume{emptyDir("v")}, false, eviction.Measured},
		"nothing that has to be there": {[]eviction.Volume{{Name: "host", Kind: "hostPath"}}, true, eviction.Measured},
	} {
		n := newNode(t)
		row := n.add("u", c.volumes, fakecri.Container{Name: "c"})
		row.Running = c.running
		n.write("/logs/ns_pod-u_u/c/0.log", 1<<20)
		if err := os.RemoveAll(n.path("/kubelet/pods")); err != nil {
			t.Fatal(err)
		}
		m := n.one(eviction.DetailPod, eviction.NodeFsAvailable, row)
		if m.State != c.want || (m.State == eviction.MeasurementUnknown) != strings.Contains(m.Err, "/kubelet/pods/u does not exist") {
			t.Errorf("%s: %+v, want state %d", name, m, c.want)
		}
	}
}
