package podusage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// podPlaces are the places to which a pod can write on the node's disks: those of the kubelet
// (pkg/kubelet/kubelet_getters.go, pkg/volume), of containerd, CRI-O and docker. LINK is a symlink among
// the logs that names the rest.
var podPlaces = []string{
	"/kubelet/pods/UID/volumes/kubernetes.io~empty-dir/data/FILE",
	"/kubelet/pods/UID/volumes/kubernetes.io~empty-dir/data/a/b/FILE",
	"/kubelet/pods/UID/volumes/kubernetes.io~empty-dir/unlisted/FILE",
	"/kubelet/pods/UID/volumes/kubernetes.io~configmap/config/..2026/FILE",
	"/kubelet/pods/UID/volumes/kubernetes.io~secret/password/FILE",
	"/kubelet/pods/UID/volumes/kubernetes.io~projected/token/FILE",
	"/kubelet/pods/UID/volumes/kubernetes.io~downward-api/labels/FILE",
	"/kubelet/pods/UID/volumes/kubernetes.io~git-repo/code/FILE",
	"/kubelet/pods/UID/volumes/kubernetes.io~local-volume/not-mounted/FILE",
	"/kubelet/pods/UID/volumes/kubernetes.io~csi/claim/mount/FILE",
	"/kubelet/pods/UID/volumes/kubernetes.io~csi/claim/vol_data.json",
	"/kubelet/pods/UID/volumes/acme.example~driver/scratch/FILE",
	"/kubelet/pods/UID/volume-subpaths/data/main/0/FILE",
	"/kubelet/pods/UID/volumeDevices/kubernetes.io~csi/FILE",
	"/kubelet/pods/UID/plugins/kubernetes.io~empty-dir/data/FILE",
	"/kubelet/pods/UID/containers/main/FILE", // the termination message
	"/kubelet/pods/UID/containers/debugger/FILE",
	"/kubelet/pods/UID/etc-hosts",
	"/kubelet/pods/UID/FILE",
	"/logs/ns_pod-UID_UID/main/FILE.log",
	"/logs/ns_pod-UID_UID/main/FILE.log.20260101-000000.gz",
	"/logs/ns_pod-UID_UID/init/FILE.log",
	"/logs/ns_pod-UID_UID/debugger/FILE.log",
	"/logs/ns_pod-UID_UID/main/below/FILE",
	"/logs/ns_pod-UID_UID/FILE",
	"LINK/docker/containers/FILE/json.log",
	"LINK/docker/containers/FILE/json.log.1",
	"LINK/docker/containers/FILE/json.log.2.gz",
}

// plant makes a file of a random size in a place of a pod and returns the size that is allocated.
func plant(n *node, random *rand.Rand, place, uid string, number int) int64 {
	n.t.Helper()
	name := strings.NewReplacer("UID", uid, "FILE", fmt.Sprint("f", number)).Replace(place)
	target, linked := strings.CutPrefix(name, "LINK")
	name = target
	if _, err := os.Stat(n.path(name)); err == nil {
		return 0
	}
	n.write(name, 1+random.IntN(1<<16))
	size := allocated(n, name)
	if linked {
		link := n.path(fmt.Sprintf("/logs/ns_pod-%s_%s/main/%d.log", uid, uid, number))
		live := strings.TrimSuffix(strings.TrimSuffix(name, ".1"), ".2.gz")
		if live != name {
			n.write(live, 1)
			size += allocated(n, live)
		}
		n.mkdir(path.Dir(strings.TrimPrefix(link, n.root)))
		if err := os.Symlink(live, link); err != nil {
			n.t.Fatal(err)
		}
	}
	return size
}

func allocated(n *node, name string) int64 {
	n.t.Helper()
	used, err := file(n.path(name))
	if err != nil {
		n.t.Fatal(err)
	}
	return used.Bytes
}

// What a pod had in a place where evictd did not look, such as the log in docker's directory or an ended
// container's layer, was of no pod, and another pod went.
func TestBytesThatAPodWritesAnywhereAreFoundAtThatPod(t *testing.T) {
	rounds, seed := 300, uint64(time.Now().UnixNano())
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		rounds = 10_000
	}
	if given, err := strconv.ParseUint(os.Getenv("EVICTD_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("EVICTD_SEED=%d, %d rounds", seed, rounds)
	random := rand.New(rand.NewPCG(seed, 0))
	n := newNode(t)
	if dir, err := os.MkdirTemp("/dev/shm", "evictd-test"); err == nil { // quicker than a disk
		t.Cleanup(func() { os.RemoveAll(dir) })
		n.root = dir
		n.start(Walk{})
	}
	for round := range rounds {
		var rows []eviction.Pod
		want := map[string]int64{}
		for i := range 3 {
			uid := fmt.Sprintf("r%dp%d", round, i)
			var containers []fakecri.Container
			for _, name := range []string{"main", "init", "debugger", "main"} {
				c := fakecri.Container{Name: name, Exited: name == "init" || len(containers) == 3, LayerBytes: uint64(random.IntN(1 << 20)), LayerInodes: 1}
				containers = append(containers, c)
				want[uid] += int64(c.LayerBytes)
			}
			rows = append(rows, n.add(uid, []eviction.Volume{emptyDir("data"), {Name: "config", Kind: "configMap", CountsForRanking: true}, {Name: "token", Kind: "projected"}}, containers...))
			n.mkdir("/kubelet/pods/" + uid + "/volumes/kubernetes.io~empty-dir/data/a/b")
			n.mkdir("/kubelet/pods/" + uid + "/volumes/kubernetes.io~configmap/config/..2026")
		}
		const signal = eviction.NodeFsAvailable
		for uid := range want { // directories of volumes
			for _, dir := range []string{"empty-dir/data", "empty-dir/data/a", "empty-dir/data/a/b", "configmap/config", "configmap/config/..2026"} {
				want[uid] += allocated(n, "/kubelet/pods/"+uid+"/volumes/kubernetes.io~"+dir)
			}
		}
		var planted []string
		for i := range 1 + random.IntN(6) {
			uid, place := rows[random.IntN(3)].UID, podPlaces[random.IntN(len(podPlaces))]
			want[uid] += plant(n, random, place, uid, round*10+i)
			planted = append(planted, uid+" "+place)
		}
		got, err := n.measure(t.Context(), request(eviction.DetailPod, signal, rows...))
		for _, row := range rows {
			if m := got[row.UID]; err != nil || m.UsageFor(signal) != want[row.UID] {
				t.Fatalf("round %d: %s uses %d (%s, %v), want %d; planted %q", round, row.UID, m.UsageFor(signal), m.Err, err, want[row.UID], planted)
			}
			n.runtime.Remove(row.UID)
			for _, dir := range []string{"/kubelet/pods/" + row.UID, "/logs/ns_pod-" + row.UID + "_" + row.UID, "/docker"} {
				if err := os.RemoveAll(n.path(dir)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Layers of a snapshotter on another filesystem counted where most layers are.
func TestALayerCountsOnTheFilesystemThatTheRuntimeNames(t *testing.T) {
	n := newNode(t)
	other, err := os.MkdirTemp("/dev/shm", "evictd-test")
	if err != nil {
		t.Skip("needs a second filesystem:", err)
	}
	t.Cleanup(func() { os.RemoveAll(other) })
	n.root = "/"
	n.start(Walk{})
	here := filepath.Dir(t.TempDir())
	device := func(dir string) uint64 {
		d, err := nodefs.FS{}.Device(dir)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if device(here) == device(other) {
		t.Skip("needs a second filesystem")
	}
	n.meter.contents = func(s eviction.Signal) (filesystem.Contents, bool) {
		b, _ := eviction.Builtin(s)
		c := filesystem.Contents{Signal: s, Unit: b.Unit, Parts: figures.PartsOf(s, eviction.LayoutImageFs), Device: device(here)}
		if b.Filesystem == eviction.ImageFs {
			c.Device = device(other)
		}
		return c, true
	}
	n.runtime.Add(fakecri.Pod{UID: "u", Namespace: "ns", Name: "pod-u", Containers: []fakecri.Container{
		{Name: "usual", LayerBytes: 1000, LayerDir: other},
		{Name: "kata", LayerBytes: 20_000, LayerDir: here},
		{Name: "ended", LayerBytes: 300_000, LayerDir: here, Exited: true},
		{Name: "unnamed", LayerBytes: 4_000_000},
	}})
	row := eviction.Pod{UID: "u", Namespace: "ns", Name: "pod-u"}
	for s, want := range map[eviction.Signal]int64{eviction.NodeFsAvailable: 320_000, eviction.ImageFsAvailable: 4_001_000} {
		if got := n.one(eviction.DetailPod, s, row); got.UsageFor(s) != want {
			t.Errorf("%s: the pod uses %d, want %d", s, got.UsageFor(s), want)
		}
	}
}

// The log of a docker container is a link in the pod's directory, which counted 0: another pod went.
func TestALogThatALinkNamesIsThePods(t *testing.T) {
	n := newNode(t)
	row, other := n.add("u", nil, fakecri.Container{Name: "c"}), n.add("other", nil, fakecri.Container{Name: "c"})
	n.write("/mnt/docker/containers/id/id-json.log", 1<<20)
	n.write("/mnt/docker/containers/id/id-json.log.1", 1<<20)
	n.write("/mnt/docker/containers/id/id-json.logs", 1<<22) // of another name
	n.write("/logs/ns_pod-other_other/c/0.log", 1<<18)
	link := "/logs/ns_pod-u_u/c/"
	n.mkdir("/var/lib")
	for name, target := range map[string]string{
		"/var/lib/docker": "/mnt/docker", link + "0.log": "/var/lib/docker/containers/id/id-json.log",
		link + "again.log": "../c/0.log", link + "gone.log": "/var/lib/docker/gone", link + "loop.log": "loop.log", link + "out.log": "/../../../../../../etc/passwd",
	} {
		if err := os.Symlink(target, n.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	want := allocated(n, "/mnt/docker/containers/id/id-json.log") + allocated(n, "/mnt/docker/containers/id/id-json.log.1")
	got, err := n.measure(t.Context(), request(eviction.DetailPod, eviction.NodeFsAvailable, row, other))
	if m := got["u"]; err != nil || m.UsageFor(eviction.NodeFsAvailable) != want {
		t.Errorf("%+v, %v, want %d", m, err, want)
	}
	wantOrder(t, got, "u other", other, row)
}
