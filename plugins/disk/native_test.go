package disk_test

import (
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
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
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
		freed, err := p.Reclaimer.Reclaim(t.Context(), req, nil)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("freed %+v, %v; containers %v, want one left", freed, err, m.runtime.ContainerIDs())
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
