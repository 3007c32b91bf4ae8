package filesystem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/cadvisor/lib/fs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/leaks"
)

var diskSignals = []eviction.Signal{
	eviction.NodeFsAvailable, eviction.NodeFsInodesFree,
	eviction.ImageFsAvailable, eviction.ImageFsInodesFree,
	eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree,
}

// newNode returns a root directory with the directories of the kubelet and of a
// runtime.
func newNode(t *testing.T) eviction.NodeFacts {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"var/lib/kubelet", "var/lib/images", "var/lib/layers"} {
		testos.MkdirAll(t, filepath.Join(root, dir), 0o755)
	}
	return eviction.NodeFacts{RootDir: root, KubeletRootDir: "/var/lib/kubelet"}
}

func open(t *testing.T, facts eviction.NodeFacts, images ImageFilesystems) *Filesystems {
	t.Helper()
	f := New(facts, images)
	t.Cleanup(f.Close)
	return f
}

func observe(t *testing.T, f *Filesystems) (map[eviction.Signal]eviction.Observation, eviction.LayoutReport) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	observations, report, err := f.Observe(ctx, diskSignals)
	if err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Error("the answer came after the caller's time")
	}
	got := make(map[eviction.Signal]eviction.Observation)
	for _, o := range observations {
		got[o.Signal] = o
	}
	if len(got) != len(diskSignals) {
		t.Errorf("%d observations, want one of each signal", len(got))
	}
	return got, report
}

// Layout returns the layout last detected, 0 before any was.
func (f *Filesystems) Layout() eviction.Layout {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.layout
}

func TestEverythingOnOneFilesystem(t *testing.T) {
	f := open(t, newNode(t), says("/var/lib/images"))
	if f.Layout() != 0 {
		t.Errorf("layout %v before any was detected", f.Layout())
	}
	before := time.Now()
	got, report := observe(t, f)
	if report != (eviction.LayoutReport{}) || f.Layout() != eviction.LayoutShared {
		t.Errorf("layout %v, %+v, want shared", f.Layout(), report)
	}
	room, err := f.kubelet.node.Statfs(f.kubelet.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range diskSignals {
		o := got[s]
		want := room.CapacityBytes
		if strings.HasSuffix(string(s), "inodesFree") {
			want = room.Inodes
		}
		if want == 0 { // btrfs
			continue
		}
		if o.State != eviction.Observed || o.Capacity != want || o.Available <= 0 || o.Available > o.Capacity {
			t.Errorf("%s: %+v, want figures of %d", s, o, want)
		}
		if o.Time.Before(before) || o.Time.After(time.Now()) || o.BootNanos <= 0 || len(o.Components) == 0 {
			t.Errorf("%s: %+v, want the time and what explains it", s, o)
		}
	}
}

func TestOtherSignalsAreLeftOut(t *testing.T) {
	f := open(t, newNode(t), says("/var/lib/images"))
	got, _, err := f.Observe(t.Context(), []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable})
	if err != nil || len(got) != 1 || got[0].Signal != eviction.NodeFsAvailable {
		t.Errorf("%+v, %v, want nodefs.available only", got, err)
	}
}

func TestWithoutTheRuntimeThereIsStillANodefs(t *testing.T) {
	c := new(changing)
	c.set(fails("connection refused"))
	f := open(t, newNode(t), c)
	got, report := observe(t, f)
	if got[eviction.NodeFsAvailable].State != eviction.Observed {
		t.Errorf("nodefs.available is %+v, want observed", got[eviction.NodeFsAvailable])
	}
	if o := got[eviction.ImageFsAvailable]; o.State != eviction.Unknown || !strings.Contains(o.Err, "connection refused") {
		t.Errorf("imagefs.available is %+v, want unknown with the reason", o)
	}
	if !strings.Contains(report.ImageFsErr, "connection refused") || f.Layout() != 0 {
		t.Errorf("layout %v, %+v, want an error", f.Layout(), report)
	}
	c.set(says("/var/lib/images"))
	if got, report = observe(t, f); report != (eviction.LayoutReport{}) || got[eviction.ImageFsAvailable].State != eviction.Observed {
		t.Errorf("with the runtime %+v, %+v, want figures and a layout", report, got[eviction.ImageFsAvailable])
	}
}

func TestAMissingDirectoryIsUnknownAndLeavesTheLayout(t *testing.T) {
	facts := newNode(t)
	f := open(t, facts, says("/var/lib/images"))
	observe(t, f)
	images := filepath.Join(facts.RootDir, "var/lib/images")
	testos.Remove(t, images)
	got, report := observe(t, f)
	if o := got[eviction.ContainerFsInodesFree]; o.State != eviction.Unknown || !strings.Contains(o.Err, images) {
		t.Errorf("containerfs.inodesFree is %+v, want unknown with the directory", o)
	}
	if report != (eviction.LayoutReport{}) || f.Layout() != eviction.LayoutShared {
		t.Errorf("layout %v, %+v, want the last one", f.Layout(), report)
	}
	g := open(t, facts, says("/var/lib/images"))
	if _, report := observe(t, g); !strings.Contains(report.ImageFsErr, images) {
		t.Errorf("first layout %+v, want an error with the directory", report)
	}
	g = open(t, facts, imagesFunc(func(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
		return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: at("/var/lib/layers"), ContainerFilesystems: at("/var/lib/images")}, nil
	}))
	if _, report := observe(t, g); report.ImageFsErr != "" || !strings.Contains(report.ContainerFsErr, images) || g.Layout() != eviction.LayoutShared {
		t.Errorf("first layout %v, %+v, want an error of the writable layers only", g.Layout(), report)
	}
}

// A runtime with a remote snapshotter names no filesystem of images that is there, so that
// nothing was known of any disk and no pod was evicted for a full one.
func TestNodefsActsAloneWhereThereIsNoFilesystemOfImages(t *testing.T) {
	for name, c := range map[string]struct {
		images imagesFunc
		why    string
		alone  bool
	}{
		"a directory that does not exist": {says("/var/lib/remote"), "/var/lib/remote", true},
		"no such call": {func(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
			return nil, status.Error(codes.Unimplemented, "no such method")
		}, "no such method", true},
		"no directory": {func(context.Context) (*runtimeapi.ImageFsInfoResponse, error) { return nil, nil }, "names no directory", true},
		"the runtime is only away": {func(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
			return nil, status.Error(codes.Unavailable, "refused")
		}, "refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			facts := newNode(t)
			synctest.Test(t, func(t *testing.T) {
				f := New(facts, c.images)
				defer f.Close()
				if _, report := observe(t, f); !strings.Contains(report.ImageFsErr, c.why) {
					t.Errorf("first layout %+v, want an error with %q", report, c.why)
				}
				time.Sleep(aloneAfter)
				got, report := observe(t, f)
				if alone := report == (eviction.LayoutReport{ImageFs: true, ContainerFs: true}) && f.Layout() == eviction.LayoutContainerFs; alone != c.alone {
					t.Errorf("then layout %v, %+v, want nodefs alone: %t", f.Layout(), report, c.alone)
				}
				if o := got[eviction.NodeFsAvailable]; o.State != eviction.Observed {
					t.Errorf("nodefs.available is %+v, want a figure", o)
				}
				for _, s := range diskSignals[2:] {
					if o := got[s]; o.State != eviction.Unknown || !strings.Contains(o.Err, c.why) {
						t.Errorf("%s is %+v, want it unknown with the reason", s, o)
					}
				}
				all := figures.Parts{Rootfs: true, Logs: true, Volumes: true}
				if of, ok := f.Contents(eviction.NodeFsAvailable); ok != c.alone || ok && of.Parts != all {
					t.Errorf("nodefs counts %+v, %t, want all of a pod", of, ok)
				}
				if name != "a directory that does not exist" {
					return
				}
				testos.Mkdir(t, filepath.Join(facts.RootDir, "var/lib/remote"), 0o755)
				if _, report := observe(t, f); report != (eviction.LayoutReport{}) {
					t.Errorf("layout %+v when it is there, want that all is on one filesystem", report)
				}
			})
		})
	}
}

// The goroutine that asks a dead server does not come back; whoever has the turn
// stands for it here.
func TestAFilesystemThatHangsCostsItsOwnSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, newNode(t), says("/var/lib/images"))
		observe(t, f)
		for name, hung := range map[string]struct {
			place *place
			lost  eviction.Signal
			kept  eviction.Signal
		}{
			"the kubelet's": {f.kubelet, eviction.NodeFsAvailable, eviction.ImageFsAvailable},
			"the images'":   {f.images, eviction.ImageFsAvailable, eviction.NodeFsAvailable},
		} {
			hung.place.slot <- struct{}{}
			synctest.Wait()
			before := leaks.Now(t).Goroutines
			const passes = 20
			for range passes {
				got, report := observe(t, f)
				if o := got[hung.lost]; o.State != eviction.Unknown || !strings.Contains(o.Err, "does not answer") {
					t.Errorf("%s: %+v, want unknown", name, o)
				}
				if o := got[hung.kept]; o.State != eviction.Observed {
					t.Errorf("%s: %+v, want observed", name, o)
				}
				if report != (eviction.LayoutReport{}) {
					t.Errorf("%s: layout %+v, want the last one", name, report)
				}
			}
			synctest.Wait()
			// Other tests leave one or two behind for a moment; a leak is one a pass.
			if after := leaks.Now(t).Goroutines; after >= before+passes/2 {
				t.Errorf("%s: %d goroutines after many passes, %d before", name, after, before)
			}
			<-hung.place.slot
			if got, _ := observe(t, f); got[hung.lost].State != eviction.Observed {
				t.Errorf("%s: %+v after it came back, want observed", name, got[hung.lost])
			}
		}
	})
}

func TestAfterClose(t *testing.T) {
	f := New(newNode(t), says("/var/lib/images"))
	f.Close()
	f.Close()
	if _, _, err := f.Observe(t.Context(), diskSignals); !errors.Is(err, answers.ErrClosed) {
		t.Errorf("error is %v, want closed", err)
	}
}

func TestLayouts(t *testing.T) {
	on := func(name string, major, minor uint) *sample {
		return &sample{at: location{device: fs.DeviceInfo{Device: name, Major: major, Minor: minor}}}
	}
	vda, vdb, vdc := on("/dev/vda", 8, 0), on("/dev/vdb", 8, 16), on("/dev/vdc", 8, 32)
	bad := &sample{err: errors.New("broken")}
	for name, c := range map[string]struct {
		in     samples
		report eviction.LayoutReport
		layout eviction.Layout
	}{
		"one disk":                  {samples{vda, vda, vda}, eviction.LayoutReport{}, eviction.LayoutShared},
		"images on their own":       {samples{vda, vdb, vdb}, eviction.LayoutReport{ImageFs: true}, eviction.LayoutImageFs},
		"only images on their own":  {samples{vda, vdb, vda}, eviction.LayoutReport{ImageFs: true, ContainerFs: true}, eviction.LayoutContainerFs},
		"only layers on their own":  {samples{vda, vda, vdb}, eviction.LayoutReport{ImageFs: true, ContainerFs: true}, eviction.LayoutContainerFs},
		"three disks":               {samples{vda, vdb, vdc}, eviction.LayoutReport{ImageFs: true, ContainerFs: true}, eviction.LayoutContainerFs},
		"one tmpfs mounted twice":   {samples{on("/a", 0, 40), on("/b", 0, 40), on("/b", 0, 40)}, eviction.LayoutReport{}, eviction.LayoutShared},
		"two subvolumes":            {samples{on("/dev/vda", 0, 40), on("/dev/vda", 0, 41), on("/dev/vda", 0, 41)}, eviction.LayoutReport{}, eviction.LayoutShared},
		"the kubelet's is not read": {samples{bad, vda, vda}, eviction.LayoutReport{ImageFsErr: "broken"}, 0},
		"images are not read":       {samples{vda, bad, bad}, eviction.LayoutReport{ImageFsErr: "broken"}, 0},
		"layers are not read":       {samples{vda, vdb, bad}, eviction.LayoutReport{ImageFs: true, ContainerFsErr: "broken"}, eviction.LayoutImageFs},
	} {
		t.Run(name, func(t *testing.T) {
			var f Filesystems
			if diff := cmp.Diff(c.report, f.detect(&c.in)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if f.Layout() != c.layout {
				t.Errorf("layout %v, want %v", f.Layout(), c.layout)
			}
			complete := samples{vda, vdb, vdb}
			f.detect(&complete)
			f.detect(&samples{node: bad, image: bad, container: bad})
			if f.Layout() != eviction.LayoutImageFs {
				t.Errorf("layout %v after errors, want the last one", f.Layout())
			}
		})
	}
}

// Each part of a pod counts where it lies; without a sample of it where the layout says.
func TestContents(t *testing.T) {
	on := func(name string, minor uint) *sample {
		return &sample{at: location{device: fs.DeviceInfo{Device: name, Major: 8, Minor: minor}}}
	}
	vda, vdb, vdc, bad := on("/dev/vda", 0), on("/dev/vdb", 16), on("/dev/vdc", 32), &sample{err: errors.New("broken")}
	all := figures.Parts{Rootfs: true, Logs: true, Volumes: true}
	for name, c := range map[string]struct {
		in                     seen
		node, image, container figures.Parts
		warned                 bool
	}{
		"one disk":                       {seen{samples{vda, vda, vda}, vda, vda}, all, all, all, false},
		"two subvolumes":                 {seen{samples{vda, vda, vda}, on("/dev/vda", 1), vda}, all, all, all, false},
		"logs on their own":              {seen{samples{vda, vda, vda}, vdb, vda}, figures.Parts{Rootfs: true, Volumes: true}, figures.Parts{Rootfs: true, Volumes: true}, figures.Parts{Rootfs: true, Volumes: true}, true},
		"logs beside the images":         {seen{samples{vda, vdb, vdb}, vdb, vda}, figures.Parts{Volumes: true}, figures.Parts{Rootfs: true, Logs: true}, figures.Parts{Rootfs: true, Logs: true}, false},
		"logs are not read":              {seen{samples{vda, vdb, vdb}, bad, vda}, figures.Parts{Logs: true, Volumes: true}, figures.Parts{Rootfs: true}, figures.Parts{Rootfs: true}, false},
		"volumes on their own":           {seen{samples{vda, vda, vda}, vda, vdc}, all, all, all, false},
		"three disks":                    {seen{samples{vda, vdb, vdc}, vda, vda}, figures.Parts{Logs: true, Volumes: true}, figures.Parts{}, figures.Parts{Rootfs: true}, false},
		"images on their own":            {seen{samples{vda, vdb, vdb}, vda, vda}, figures.Parts{Logs: true, Volumes: true}, figures.Parts{Rootfs: true}, figures.Parts{Rootfs: true}, false},
		"layers are not read beside one": {seen{samples{vda, vda, bad}, vda, vda}, all, all, all, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := Filesystems{logs: new(place), volumes: new(place)}
			f.detect(&c.in.samples)
			f.note(c.in)
			for i, want := range []figures.Parts{c.node, c.image, c.container} {
				if got, ok := f.Contents(diskSignals[2*i]); got.Parts != want || !ok {
					t.Errorf("%s counts %+v, %t, want %+v", diskSignals[2*i], got, ok, want)
				}
			}
			if f.warned != c.warned {
				t.Errorf("warned that something has no signal: %t, want %t", f.warned, c.warned)
			}
		})
	}
}

func TestObservationOfASample(t *testing.T) {
	room := nodefs.FilesystemSample{CapacityBytes: 1000, FreeBytes: 300, AvailableBytes: 250, Inodes: 40, InodesFree: 30}
	s := sample{room: room, at: location{name: "/dev/vda on /"}}
	got := s.observation(eviction.NodeFsAvailable, nil)
	want := eviction.Observation{
		Signal: eviction.NodeFsAvailable, State: eviction.Observed, Available: 250, Capacity: 1000,
		Components: []eviction.Component{{Name: "/dev/vda on /", Value: 1000}, {Name: "used", Value: 700}, {Name: "free", Value: 300}, {Name: "reserved", Value: 50}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
	got = s.observation(eviction.NodeFsInodesFree, nil)
	want = eviction.Observation{
		Signal: eviction.NodeFsInodesFree, State: eviction.Observed, Available: 30, Capacity: 40,
		Components: []eviction.Component{{Name: "/dev/vda on /", Value: 40}, {Name: "used", Value: 10}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inodes (-want +got):\n%s", diff)
	}
	s.room.Inodes, s.room.InodesFree = 0, 0
	if got := s.observation(eviction.NodeFsInodesFree, nil); got.State != eviction.Absent {
		t.Errorf("inodes of a filesystem that counts none: %+v, want absent", got)
	}
	s.room = nodefs.FilesystemSample{CapacityBytes: 1000, Inodes: 40}
	if got := s.observation(eviction.NodeFsAvailable, nil); got.State != eviction.Observed || got.Available != 0 {
		t.Errorf("bytes of a full disk: %+v, want observed with nothing left", got)
	}
}

func TestImagesHaveAShareOfWhatIsInUse(t *testing.T) {
	for name, c := range map[string]struct {
		said directories
		want string
	}{
		"as the runtime says":      {directories{imageBytes: 700, imageInodes: 3}, "700 3"},
		"not more than is in use":  {directories{imageBytes: 751, imageInodes: 11}, "- -"},
		"an amount that overflows": {directories{imageBytes: math.MaxUint64, imageInodes: math.MaxUint64}, "- -"},
		"nothing":                  {directories{}, "- -"},
	} {
		s := sample{room: nodefs.FilesystemSample{CapacityBytes: 1000, FreeBytes: 300, AvailableBytes: 250, Inodes: 40, InodesFree: 30}}
		var got []string
		for _, signal := range []eviction.Signal{eviction.ImageFsAvailable, eviction.ImageFsInodesFree} {
			o := s.observation(signal, nil)
			c.said.addImages(&o)
			text := "-"
			if last := o.Components[len(o.Components)-1]; last.Name == "images" {
				text = fmt.Sprint(last.Value)
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	f := New(eviction.NodeFacts{RootDir: "/", KubeletRootDir: b.TempDir()}, says(b.TempDir()))
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := f.Observe(b.Context(), diskSignals); err != nil {
			b.Fatal(err)
		}
	}
}

// A layer whose snapshotter has a disk of its own counted on the images' filesystem: its pod went, and nothing came back.
func TestAPartOnAFilesystemWithoutASignalCountsNowhere(t *testing.T) {
	c := Contents{Device: 1, Same: [3]uint64{0, 1, 4}}
	for _, of := range []struct {
		device      uint64
		usual, want bool
	}{
		{1, false, true}, {1, true, true}, // there, whatever is usual
		{2, true, false}, {2, false, false}, // on a disk without a signal, or of another
		{4, true, true}, {4, false, false}, // a subvolume of it
		{0, true, true}, {0, false, false}, // not known
	} {
		if got := c.Holds(of.device, of.usual); got != of.want {
			t.Errorf("device %d, usually %v: %v, want %v", of.device, of.usual, got, of.want)
		}
	}
	if !(&Contents{}).Holds(2, true) {
		t.Error("without a device of its own the usual filesystem counts")
	}
}
