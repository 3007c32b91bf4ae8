package gc_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// store is a runtime whose images have a filesystem of 100 times their size, on which
// something else is, too.
type store struct {
	*node
	settings gc.Settings
	// others is the usage of all but images, realSize the size of an image of a thousand bytes.
	others, realSize, capacity int64
}

func newStore(t *testing.T, s gc.Settings) *store {
	t.Helper()
	n := &store{node: aged(t, s), realSize: 1000, capacity: 100_000}
	zero := gc.Duration(0)
	s.ImageMinimumGCAge, s.PeriodicImageGC = &zero, true
	n.settings = s
	n.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/nonexistent/images"}}}})
	n.collector = gc.New(gc.Options{
		Client: &cri.Client{Runtime: n.Client(), Images: n.ImageClient()}, PodLogsDir: n.logs, Settings: s,
		Statfs: func(path string) (nodefs.FilesystemSample, error) {
			if path != "/nonexistent/images" {
				t.Errorf("asked for the room on %s, want that of the images", path)
			}
			used := n.others + int64(len(n.ImageIDs()))*n.realSize
			return nodefs.FilesystemSample{CapacityBytes: n.capacity, AvailableBytes: n.capacity - used}, nil
		},
	})
	return n
}

// collect fills the filesystem up to a percentage and has a periodic GC run.
func (n *store) collect(t *testing.T, usedPercent int64) (eviction.Reclaimed, error) {
	t.Helper()
	n.others = n.capacity*usedPercent/100 - int64(len(n.ImageIDs()))*n.realSize
	return n.collector.Periodic(t.Context())
}

func (n *store) wantLeft(t *testing.T, when, want string) {
	t.Helper()
	if got := n.leftImages(); got != want {
		t.Errorf("%s: left %q, want %q", when, got, want)
	}
}

// A node without a kubelet filled with images until its pods were evicted for it.
func TestAFullImageFilesystemLosesTheLeastRecentlyUsedImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newStore(t, gc.Settings{})
		n.addImages("a", "b", "c", "d", "running", "pause")
		n.AddImage(&runtimeapi.Image{Id: "sha256:pinned", Pinned: true, Size: 1000})
		n.SetSandboxImage("example.org/pause:1")
		n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "a", ImageID: "sha256:running"}}})
		n.Add(fakecri.Pod{UID: "q", Containers: []fakecri.Container{{Name: "a", ImageID: "sha256:a"}}})
		if err := n.collector.Detect(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.Remove("q")
		time.Sleep(time.Minute)
		released, err := n.collect(t, 84)
		if err != nil || released.Message != "" || released.Bytes != 0 {
			t.Errorf("below the threshold: %+v, %v, want nothing", released, err)
		}
		n.wantLeft(t, "below the threshold", "a b c d pause pinned running")

		n.settings.ImageGCLowThresholdPercent = new(int32(83))
		n.collector.Apply(n.settings)
		released, err = n.collect(t, 85)
		if err != nil || released.Bytes != 2000 {
			t.Errorf("at the threshold: %+v, %v, want two images gone", released, err)
		}
		wantIn(t, "message", released.Message, "image filesystem 85% used, from 85% on images go until it is 83%, removed 2 images, 2.0 KiB by the runtime's figures")
		n.wantLeft(t, "at the threshold", "a d pause pinned running")
	})
}

// What is in use, pinned or the sandboxes' stays, however full the disk is.
func TestAnImageFilesystemThatIsFullOfOtherThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newStore(t, gc.Settings{})
		n.addImages("free", "running", "pause")
		n.AddImage(&runtimeapi.Image{Id: "sha256:pinned", Pinned: true, Size: 1000})
		n.SetSandboxImage("example.org/pause:1")
		n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "a", Exited: true, ImageID: "sha256:running"}}})
		released, err := n.collect(t, 95)
		short, isShort := errors.AsType[*gc.ShortError](err)
		if !isShort || released.Bytes != 1000 {
			t.Fatalf("%+v, error %v, want one gone and too little", released, err)
		}
		const want = "Insufficient free disk space on the node's image filesystem (95% of 97.7 KiB used). " +
			"Failed to free sufficient space by deleting unused images (freed 1000 bytes). " +
			"Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
		if short.Error() != want {
			t.Errorf("error\n%s\nwant\n%s", short, want)
		}
		n.wantLeft(t, "full", "pause pinned running")
	})
}

// Compressed images are larger than the runtime says: as many go as have to.
func TestEnoughIsWhatTheFilesystemSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newStore(t, gc.Settings{})
		n.realSize = 5000
		n.addImages("a", "b", "c", "d")
		if released, err := n.collect(t, 89); err != nil || released.Bytes != 2000 {
			t.Errorf("%+v, error %v, want two of them gone", released, err)
		}
		n.wantLeft(t, "enough", "c d")
		n.realSize = 10
		if released, err := n.collect(t, 81); err != nil || released.Bytes != 0 {
			t.Errorf("between the thresholds: %+v, error %v, want nothing gone", released, err)
		}
	})
}

func TestImagesUnusedForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		oldest := gc.Duration(time.Hour)
		n := newStore(t, gc.Settings{ImageMaximumGCAge: &oldest})
		n.addImages("never", "once", "running")
		n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "a", ImageID: "sha256:running"}}})
		n.Add(fakecri.Pod{UID: "q", Containers: []fakecri.Container{{Name: "a", ImageID: "sha256:once"}}})
		collect := func() eviction.Reclaimed {
			t.Helper()
			released, err := n.collect(t, 10)
			if err != nil {
				t.Error(err)
			}
			return released
		}
		collect()
		time.Sleep(40 * time.Minute)
		collect()
		n.Remove("q")
		n.addImages("late")
		n.wantLeft(t, "40 minutes", "late never once running")
		time.Sleep(21 * time.Minute)
		released := collect()
		n.wantLeft(t, "an hour", "late once running")
		wantIn(t, "message", released.Message, "1 images unused for more than 1h0m0s, removed 1 images")
		time.Sleep(40 * time.Minute)
		collect()
		n.wantLeft(t, "an hour after it was last used", "late running")
		time.Sleep(24 * time.Hour)
		collect()
		n.wantLeft(t, "a day", "running")
	})
}

func TestNothingGoesUnlessItIsSwitchedOn(t *testing.T) {
	for name, change := range map[string]func(*gc.Settings){
		"off":     func(s *gc.Settings) { s.PeriodicImageGC = false },
		"100%":    func(s *gc.Settings) { s.ImageGCHighThresholdPercent = new(int32(100)) },
		"dry run": func(s *gc.Settings) { s.DryRun = true },
	} {
		n := newStore(t, gc.Settings{})
		n.addImages("a", "b")
		change(&n.settings)
		n.collector.Apply(n.settings)
		released, err := n.collect(t, 100)
		if err != nil || released.Bytes != 0 || len(n.Calls(fakecri.RemoveImage)) > 0 {
			t.Errorf("%s: %+v, %v, %d images gone", name, released, err, len(n.Calls(fakecri.RemoveImage)))
		}
		if name == "dry run" {
			wantIn(t, "message", released.Message, "dry run: 2 images with 2.0 KiB would go")
		} else if released.Message != "" {
			t.Errorf("%s: message %q", name, released.Message)
		}
	}
}

// The host waited for 500 images before it could free what it needed.
func TestAPeriodicGCMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newStore(t, gc.Settings{})
		n.addImages("a", "b", "c")
		n.Inject(fakecri.RemoveImage, fakecri.Fault{Delay: 20 * time.Second})
		ended := make(chan eviction.Reclaimed)
		go func() {
			released, err := n.collect(t, 95)
			if err != nil {
				t.Error(err)
			}
			ended <- released
		}()
		time.Sleep(10 * time.Second)
		began := time.Now()
		if _, err := n.collector.Containers(t.Context(), nil, true, nil); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("container GC took %v, want no more than the image that was being removed", took)
		}
		if released := <-ended; released.Bytes != 1000 {
			t.Errorf("freed %+v, want one image", released)
		}
	})
}

// A reload that switches it off holds at once.
func TestAPeriodicGCEndsWithItsSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newStore(t, gc.Settings{})
		n.addImages("a", "b", "c")
		n.Inject(fakecri.RemoveImage, fakecri.Fault{Delay: 20 * time.Second})
		time.AfterFunc(time.Second, func() {
			n.settings.DryRun = true
			n.collector.Apply(n.settings)
		})
		if released, err := n.collect(t, 95); err != nil || released.Bytes != 1000 {
			t.Errorf("%+v, %v, want the image that was being removed and no other", released, err)
		}
	})
}

func TestPeriodicGCThatCannotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *store)
		want   string
	}{
		"no capacity":      {func(n *store) { n.capacity = 0 }, "invalid capacity 0 on image filesystem"},
		"no image store":   {func(n *store) { n.SetImageFs(&runtimeapi.ImageFsInfoResponse{}) }, "does not say where the images are"},
		"no sandbox image": {func(n *store) { n.SetSandboxImage("") }, "neither names its sandbox image"},
		"nobody says who uses images": {func(n *store) {
			n.Inject(fakecri.ListContainers, fakecri.Fault{Err: status.Error(codes.Internal, "oops")})
		}, "oops"},
	} {
		n := newStore(t, gc.Settings{})
		n.addImages("a")
		c.change(n)
		released, err := n.collect(t, 95)
		if err == nil || !strings.Contains(err.Error(), c.want) || released.Bytes != 0 || n.leftImages() != "a" {
			t.Errorf("%s: %+v, error %v, left %q, want %q", name, released, err, n.leftImages(), c.want)
		}
	}
}

func TestOneImageThatFailsDoesNotKeepTheOthersPeriodically(t *testing.T) {
	n := newStore(t, gc.Settings{})
	n.addImages("a", "b", "c")
	n.Inject(fakecri.RemoveImage, fakecri.Fault{ID: "sha256:a", Err: status.Error(codes.Internal, "read-only")})
	released, err := n.collect(t, 99)
	if err == nil || !strings.Contains(err.Error(), "remove image example.org/a:1") || released.Bytes != 2000 {
		t.Errorf("%+v, error %v, want the others gone", released, err)
	}
	if _, isShort := errors.AsType[*gc.ShortError](err); isShort {
		t.Errorf("error %v says that too few images are unused", err)
	}
}
