package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// A machine is a directory with the kubelet's in it, and a runtime on a socket.
type machine struct {
	runtime *fakecri.Server
	facts   eviction.NodeFacts
	images  string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	root := t.TempDir()
	m := &machine{runtime: fakecri.Start(t), images: filepath.Join(root, "images")}
	m.facts = eviction.NodeFacts{
		RootDir: "/", CgroupRoot: "/evictd-test-none", CgroupDriver: "cgroupfs",
		KubeletRootDir: filepath.Join(root, "kubelet"), PodLogsDir: filepath.Join(root, "logs"), RuntimeEndpoint: m.runtime.Endpoint(),
	}
	for _, dir := range []string{m.images, m.facts.KubeletRootDir, m.facts.PodLogsDir} {
		testos.MkdirAll(t, dir, 0o755)
	}
	fs := []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: m.images}}}
	m.runtime.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: fs, ContainerFilesystems: fs})
	return m
}

func (m *machine) configure(t *testing.T, p sdk.Plugin, config string) {
	t.Helper()
	if err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: m.facts, Config: []byte(config)}); err != nil {
		t.Fatal(err)
	}
}

// settled observes until the layout is known.
func settled(t *testing.T, p sdk.Plugin) eviction.ObserveReply {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		reply, err := observe(t, p)
		if err != nil {
			t.Fatal(err)
		}
		if reply.Layout.ImageFsErr == "" {
			return reply
		}
		if time.Now().After(deadline) {
			t.Fatalf("layout is %+v", reply.Layout)
		}
	}
}

func measureAll(t *testing.T, p sdk.Plugin, s eviction.Signal, pods ...eviction.Pod) map[string]eviction.Measurement {
	t.Helper()
	var mu sync.Mutex
	got := map[string]eviction.Measurement{}
	req := eviction.MeasureRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Detail: eviction.DetailPod, Signals: []eviction.Signal{s}, Pods: pods}
	if err := p.Measurer.Measure(t.Context(), req, func(m eviction.Measurement) {
		mu.Lock()
		defer mu.Unlock()
		got[m.UID] = m
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestNativeFigures(t *testing.T) {
	m := newMachine(t)
	p := disk.New()
	m.configure(t, p, `{"imageMinimumGCAge":"1m","maxPerPodContainer":0,"walk":{"parallel":2}}`)
	reply := settled(t, p)
	if *reply.Layout != (eviction.LayoutReport{}) {
		t.Errorf("layout is %+v, want everything on one filesystem", reply.Layout)
	}
	for _, o := range reply.Observations {
		if o.State != eviction.Observed && o.Signal != eviction.ContainerFsAvailable && o.Signal != eviction.ContainerFsInodesFree {
			t.Errorf("%+v, want a figure", o)
		}
	}
	m.runtime.Add(fakecri.Pod{UID: "u", Namespace: "ns", Name: "p", Containers: []fakecri.Container{{Name: "c", LayerBytes: 5000, LayerInodes: 5}}})
	row := eviction.Pod{UID: "u", Namespace: "ns", Name: "p"}
	got := measureAll(t, p, eviction.NodeFsAvailable, row, eviction.Pod{UID: "gone", Namespace: "ns", Name: "g"})
	if u := got["u"]; u.State != eviction.Measured || u.UsageFor(eviction.NodeFsAvailable) != 5000 {
		t.Errorf("measured %+v, want 5000 bytes", u)
	}
	if got["gone"].State != eviction.NoStats {
		t.Errorf("measured %+v, want no stats", got["gone"])
	}
}

func TestNativeReclaim(t *testing.T) {
	m := newMachine(t)
	p := disk.New()
	m.configure(t, p, `{"maxPerPodContainer":0}`)
	m.runtime.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "c"}, {Name: "dead", Exited: true}}})
	req := eviction.ReclaimRequest{Signal: eviction.NodeFsAvailable, Step: disk.ContainerGC, Pods: []eviction.PodPhase{{UID: "u", State: eviction.PodActive}}}
	// The fake runtime is some milliseconds ahead, and what is of the future stays.
	for deadline := time.Now().Add(10 * time.Second); len(m.runtime.ContainerIDs()) > 1; {
		released, err := p.Reclaimer.Reclaim(t.Context(), req, nil)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("freed %+v, %v; containers %v, want one left", released, err, m.runtime.ContainerIDs())
		}
	}
	req.Step = disk.ImageGC
	if _, err := p.Reclaimer.Reclaim(t.Context(), req, nil); err != nil {
		t.Error(err)
	}
	m.runtime.Inject(fakecri.ListContainers, fakecri.Fault{Err: status.Error(codes.Internal, "no")})
	if _, err := p.Reclaimer.Reclaim(t.Context(), req, nil); err == nil {
		t.Error("no error although containers cannot be listed")
	}
}

// Settings are changed while calls run, and so is the source. Every call ends with
// an answer of the node that it began with.
func TestReconfiguringUnderway(t *testing.T) {
	m := newMachine(t)
	p := disk.New()
	m.configure(t, p, "")
	settled(t, p)
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := observe(t, p); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for _, config := range slices.Repeat([]string{`{"minAge":"1s"}`, `{"walk":{"parallel":1}}`, `{}`}, 20) {
		m.configure(t, p, config)
	}
	close(stop)
	wait.Wait()
	settled(t, p)
}

// A pod that logs much was evicted for the disk although its logs were on another one,
// and nothing came back.
func TestLogsOnAnotherFilesystemAreNoneOfNodefs(t *testing.T) {
	const logBytes, dataBytes = 1 << 20, 100 << 10
	m := newMachine(t)
	elsewhere, err := os.MkdirTemp("/dev/shm", "evictd-logs-")
	if err != nil || device(t, elsewhere) == device(t, m.images) {
		t.Skipf("needs a second filesystem at /dev/shm: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(elsewhere) })
	emptyDir := []eviction.Volume{{Name: "v", Kind: "emptyDir", CountsForRanking: true}}
	rows := []eviction.Pod{{UID: "chatty", Namespace: "ns", Name: "p"}, {UID: "writes", Namespace: "ns", Name: "p", Volumes: emptyDir}}
	for name, c := range map[string]struct {
		logs             string
		nodefs, imagefs  int64
		imagesAreOnOther bool
	}{
		"logs beside the kubelet's files": {logs: m.facts.PodLogsDir, nodefs: logBytes, imagefs: logBytes},
		"logs on a disk of their own":     {logs: elsewhere},
		"logs beside the images":          {logs: elsewhere, imagefs: logBytes, imagesAreOnOther: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.facts.PodLogsDir = c.logs
			if c.imagesAreOnOther {
				fs := []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: elsewhere}}}
				m.runtime.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: fs})
			}
			for uid, file := range map[string]string{
				"chatty": filepath.Join(c.logs, "ns_p_chatty", "c", "0.log"),
				"writes": filepath.Join(m.facts.KubeletRootDir, "pods", "writes", "volumes", "kubernetes.io~empty-dir", "v", "data"),
			} {
				m.runtime.Add(fakecri.Pod{UID: uid, Namespace: "ns", Name: "p", Containers: []fakecri.Container{{Name: "c"}}})
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, make([]byte, map[bool]int{true: logBytes, false: dataBytes}[uid == "chatty"]), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			p := disk.New()
			m.configure(t, p, "")
			settled(t, p)
			got := measureAll(t, p, eviction.NodeFsAvailable, rows...)
			chatty, writes := got["chatty"], got["writes"]
			if used := chatty.UsageFor(eviction.NodeFsAvailable); used != c.nodefs {
				t.Errorf("the logs count %d for nodefs.available, want %d", used, c.nodefs)
			}
			if used := writes.UsageFor(eviction.NodeFsAvailable); used < dataBytes {
				t.Errorf("the volume counts %d for nodefs.available, want %d at least", used, dataBytes)
			}
			chatty = measureAll(t, p, eviction.ImageFsAvailable, rows...)["chatty"]
			if used := chatty.UsageFor(eviction.ImageFsAvailable); used != c.imagefs {
				t.Errorf("the logs count %d for imagefs.available, want %d", used, c.imagefs)
			}
			// Limits count logs wherever they are, as the kubelet does.
			req := eviction.MeasureRequest{Detail: eviction.DetailContainers, Signals: []eviction.Signal{eviction.NodeFsAvailable}, Pods: rows[:1]}
			if err := p.Measurer.Measure(t.Context(), req, func(m eviction.Measurement) { chatty = m }); err != nil {
				t.Fatal(err)
			}
			if chatty.EphemeralStorageUsedBytes.Value != logBytes || chatty.Containers[0].LogsUsedBytes.Value != logBytes {
				t.Errorf("%+v, want %d bytes of logs for the limits", chatty, logBytes)
			}
		})
	}
}

func device(t *testing.T, name string) uint64 {
	t.Helper()
	at, err := nodefs.FS{}.Device(name)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
