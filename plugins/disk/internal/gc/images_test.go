package gc_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

// addImages has the runtime hold images of a thousand bytes, with ids as containerd
// makes them.
func (n *node) addImages(names ...string) {
	for _, name := range names {
		n.AddImage(&runtimeapi.Image{Id: "sha256:" + name, RepoTags: []string{"example.org/" + name + ":1"}, RepoDigests: []string{"example.org/" + name + "@sha256:d" + name}, Size: 1000})
	}
}

func (n *node) leftImages() string {
	return strings.ReplaceAll(sorted(n.ImageIDs()...), "sha256:", "")
}

// aged lets the images be old enough.
func aged(t *testing.T, s gc.Settings) *node {
	zero := gc.Duration(0)
	s.ImageMinimumGCAge = &zero
	return newNode(t, s)
}

func (n *node) collectImages(t *testing.T) (eviction.Reclaimed, error) {
	t.Helper()
	n.progress = nil
	return n.collector.Images(t.Context(), eviction.Reclaimed{}, n.note)
}

func TestWhichImagesGo(t *testing.T) {
	n := aged(t, gc.Settings{})
	n.addImages("running", "stopped", "by-ref", "by-digest", "by-name", "volume", "pause", "free", "old-tag")
	n.AddImage(&runtimeapi.Image{Id: "sha256:pinned", Pinned: true})
	n.AddImage(&runtimeapi.Image{Id: "sha256:moved", RepoTags: []string{"example.org/moved:1"}, Size: 7})
	n.SetSandboxImage("example.org/pause:1")
	n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{
		{Name: "a", Image: "example.org/running:1", ImageID: "sha256:running", ImageVolumes: []string{"sha256:volume"}},
		{Name: "b", Exited: true, ImageID: "sha256:stopped"},
		{Name: "c", ImageRef: "sha256:by-ref"},
		{Name: "d", ImageRef: "example.org/by-digest@sha256:dby-digest", ImageID: "by-digest"},
		{Name: "e", Image: "example.org/by-name:1"},
		// The tag is another image's now.
		{Name: "f", Image: "example.org/moved:1", ImageID: "sha256:old-tag"},
	}})
	released, err := n.collectImages(t)
	if err != nil {
		t.Error(err)
	}
	if got, want := n.leftImages(), "by-digest by-name by-ref old-tag pause pinned running stopped volume"; got != want {
		t.Errorf("left %q, want %q", got, want)
	}
	if released.Bytes != 1007 || released.Inodes != 0 || len(n.progress) < 2 || n.progress[len(n.progress)-1].Bytes != 1007 {
		t.Errorf("freed %+v, progress %+v", released, n.progress)
	}
	wantIn(t, "message", released.Message, "removed 2 images, 1007 bytes by the runtime's figures, inodes unknown; kept 7 in use, 2 pinned or for sandboxes, 0 too new")
}

// All unused images were removed under pressure, and had to be pulled again. Figures of images
// may say more than there comes, and of inodes there are none: the filesystem counts.
func TestImageGCEndsAtItsTarget(t *testing.T) {
	const size = 1000
	for name, c := range map[string]struct {
		to     bool
		brings eviction.Reclaimed // an image
		want   eviction.Reclaimed
		left   string
	}{
		"off":                     {brings: eviction.Reclaimed{Bytes: size}, want: eviction.Reclaimed{Bytes: 1500}},
		"bytes":                   {to: true, brings: eviction.Reclaimed{Bytes: size}, want: eviction.Reclaimed{Bytes: 1500}, left: "c d e"},
		"bytes of shared layers":  {to: true, brings: eviction.Reclaimed{Bytes: size / 2}, want: eviction.Reclaimed{Bytes: 1500}, left: "d e"},
		"inodes":                  {to: true, brings: eviction.Reclaimed{Bytes: size, Inodes: 70}, want: eviction.Reclaimed{Inodes: 150}, left: "d e"},
		"more than there is":      {to: true, brings: eviction.Reclaimed{Bytes: size}, want: eviction.Reclaimed{Bytes: 9000}},
		"a host that says no sum": {to: true, brings: eviction.Reclaimed{Bytes: size}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				n := aged(t, gc.Settings{})
				n.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: dir}}}})
				n.addImages("a", "b", "c", "d", "e")
				n.collector = gc.New(gc.Options{
					Client: &cri.Client{Runtime: n.Client(), Images: n.ImageClient()}, PodLogsDir: n.logs,
					Settings: gc.Settings{ImageMinimumGCAge: new(gc.Duration), ImageGCToTarget: c.to},
					Statfs: func(string) (nodefs.FilesystemSample, error) {
						gone := int64(5 - len(n.ImageIDs()))
						return nodefs.FilesystemSample{FreeBytes: gone * c.brings.Bytes, InodesFree: gone * c.brings.Inodes}, nil
					},
				})
				done, err := n.collector.Images(t.Context(), c.want, n.note)
				if got := n.leftImages(); err != nil || got != c.left {
					t.Errorf("left %q, want %q; %+v, error %v", got, c.left, done, err)
				}
				if c.left != "" {
					wantIn(t, "message", done.Message, fmt.Sprintf("target reached: kept %d unused images of 5", len(strings.Fields(c.left))))
				}
			})
		})
	}
}

func TestLeastRecentlyUsedGoFirstThenFirstDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, gc.Settings{})
		detect := func() {
			t.Helper()
			if err := n.collector.Detect(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		n.addImages("z-first", "used-late", "used-early")
		n.Add(fakecri.Pod{UID: "late", Containers: []fakecri.Container{{Name: "a", ImageID: "sha256:used-late"}}})
		n.Add(fakecri.Pod{UID: "early", Containers: []fakecri.Container{{Name: "a", ImageID: "sha256:used-early"}}})
		detect()
		n.addImages("a-second")
		n.Remove("early")
		detect()
		n.Remove("late")
		detect()
		n.addImages("new")
		detect()
		if _, err := n.collectImages(t); err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, c := range n.Calls(fakecri.RemoveImage) {
			order = append(order, strings.TrimPrefix(c.ID, "sha256:"))
		}
		if got, want := strings.Join(order, " "), "z-first a-second used-early used-late"; got != want {
			t.Errorf("removed %q, want %q", got, want)
		}
		if got := n.leftImages(); got != "new" {
			t.Errorf("left %q, want the one that was detected a minute ago", got)
		}
		time.Sleep(time.Minute)
		if _, err := n.collectImages(t); err != nil || n.leftImages() != "" {
			t.Errorf("two minutes after it was detected: error %v, left %q", err, n.leftImages())
		}
		// Pulled again it is new, also if nobody has looked in between.
		n.addImages("new")
		if released, err := n.collectImages(t); err != nil || n.leftImages() != "new" || !strings.Contains(released.Message, "1 too new") {
			t.Errorf("pulled again: %+v, error %v, left %q", released, err, n.leftImages())
		}
	})
}

// The list of containers does not have their mounts: each container is asked once.
func TestMountsAreAskedForOnce(t *testing.T) {
	n := newNode(t, gc.Settings{})
	n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "a"}, {Name: "b"}}})
	for range 3 {
		if err := n.collector.Detect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(n.Calls(fakecri.ContainerStatus)); got != 2 {
		t.Errorf("asked %d times for 2 containers", got)
	}
}

func TestOneImageThatFailsDoesNotKeepTheOthers(t *testing.T) {
	n := aged(t, gc.Settings{})
	n.addImages("a", "b", "c", "d")
	for _, id := range []string{"sha256:a", "sha256:c"} {
		n.Inject(fakecri.RemoveImage, fakecri.Fault{ID: id, Err: status.Error(codes.Internal, "read-only")})
	}
	released, err := n.collectImages(t)
	want := fmt.Sprintf("wanted to free %d bytes, but freed 2000 bytes space with errors in image deletion: "+
		"[remove image example.org/a:1: rpc error: code = Internal desc = read-only, remove image example.org/c:1: rpc error: code = Internal desc = read-only]", int64(math.MaxInt64))
	if err == nil || err.Error() != want || released.Bytes != 2000 || n.leftImages() != "a c" {
		t.Errorf("freed %+v, left %q, error %v\nwant error %s", released, n.leftImages(), err, want)
	}
}

func TestImagesStayWhenTheRuntimeDoesNotSayWhoUsesThem(t *testing.T) {
	for _, m := range []fakecri.Method{fakecri.ListImages, fakecri.ListContainers, fakecri.ContainerStatus, fakecri.Status, fakecri.ImageStatus} {
		n := aged(t, gc.Settings{})
		n.addImages("a")
		n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "a"}}})
		n.SetSandboxImage("example.org/pause:1")
		n.Inject(m, fakecri.Fault{Err: status.Error(codes.Internal, "oops")})
		released, err := n.collectImages(t)
		if err == nil || !strings.Contains(err.Error(), "oops") || released.Bytes != 0 || n.leftImages() != "a" {
			t.Errorf("%s fails: freed %+v, error %v, left %q", m, released, err, n.leftImages())
		}
	}
}

// One container whose status cannot be read kept all images, and a pod went in their place.
func TestAContainerWithoutAStatusKeepsOnlyWhatItMayMount(t *testing.T) {
	for name, c := range map[string]struct {
		container fakecri.Container
		left      string
	}{
		"one that has exited": {fakecri.Container{ID: "bad", Name: "a", ImageID: "sha256:own", Exited: true}, "own"},
		"one that runs":       {fakecri.Container{ID: "bad", Name: "a", ImageID: "sha256:own"}, "own perhaps-a-volume"},
	} {
		t.Run(name, func(t *testing.T) {
			n := aged(t, gc.Settings{})
			n.addImages("own", "former", "perhaps-a-volume")
			n.SetSandboxImage("example.org/pause:1")
			n.Add(fakecri.Pod{UID: "former", Containers: []fakecri.Container{{ID: "former", Name: "c", ImageID: "sha256:former"}}})
			if err := n.collector.Detect(t.Context()); err != nil {
				t.Fatal(err)
			}
			n.Remove("former")
			n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{c.container}})
			n.Inject(fakecri.ContainerStatus, fakecri.Fault{ID: "bad", Err: status.Error(codes.Unknown, "oops")})
			_, err := n.collectImages(t)
			if err == nil || !strings.Contains(err.Error(), "oops") || n.leftImages() != c.left {
				t.Errorf("error %v, left %q, want the container named and %q", err, n.leftImages(), c.left)
			}
		})
	}
}

// While one image is removed, which takes a while, a pod starts from the next one.
func TestAnImageThatComesIntoUseMeanwhileStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aged(t, gc.Settings{})
		n.addImages("a", "b", "c")
		n.Inject(fakecri.RemoveImage, fakecri.Fault{ID: "sha256:a", Delay: 2 * time.Second})
		time.AfterFunc(time.Second, func() {
			n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "a", ImageID: "sha256:b"}}})
		})
		if _, err := n.collectImages(t); err != nil || n.leftImages() != "b" {
			t.Errorf("error %v, left %q, want the one that is used now", err, n.leftImages())
		}
	})
}

func TestImagesStayWhenTheSandboxImageIsNotKnown(t *testing.T) {
	n := aged(t, gc.Settings{})
	n.addImages("a", "pause")
	n.SetSandboxImage("")
	released, err := n.collectImages(t)
	if err == nil || !strings.Contains(err.Error(), "neither names its sandbox image") || released.Bytes != 0 || n.leftImages() != "a pause" {
		t.Errorf("freed %+v, error %v, left %q", released, err, n.leftImages())
	}
	// A runtime that pins images pins this one.
	n.AddImage(&runtimeapi.Image{Id: "sha256:pinned", Pinned: true})
	if _, err := n.collectImages(t); err != nil || n.leftImages() != "pinned" {
		t.Errorf("with one pinned: error %v, left %q", err, n.leftImages())
	}
}

// Image GC removed the image of all sandboxes that ran, since some other image was pinned: no pod could start without a registry.
func TestImagesOfRunningSandboxesStay(t *testing.T) {
	for name, c := range map[string]struct {
		pod  fakecri.Pod
		want string
	}{
		"by name":           {fakecri.Pod{UID: "p", SandboxImage: "example.org/pause:1"}, "pause pinned"},
		"by ID":             {fakecri.Pod{UID: "p", SandboxImage: "sha256:pause"}, "pause pinned"},
		"one that has gone": {fakecri.Pod{UID: "p", SandboxImage: "example.org/pause:1", NotReady: true}, "pinned"},
		"another one's":     {fakecri.Pod{UID: "p", SandboxImage: "example.org/pause:2"}, "pinned"},
	} {
		t.Run(name, func(t *testing.T) {
			n := aged(t, gc.Settings{})
			n.addImages("a")
			n.AddImage(&runtimeapi.Image{Id: "sha256:pause", RepoTags: []string{"example.org/pause:1"}})
			n.AddImage(&runtimeapi.Image{Id: "sha256:pinned", Pinned: true})
			n.SetSandboxImage("")
			n.Add(c.pod)
			if _, err := n.collectImages(t); err != nil || n.leftImages() != c.want {
				t.Errorf("error %v, left %q, want %q", err, n.leftImages(), c.want)
			}
		})
	}
}

// The kubelet collects images as well.
func TestWhatOthersRemovedDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aged(t, gc.Settings{})
		n.addImages("a", "b", "c")
		n.Inject(fakecri.RemoveImage, fakecri.Fault{ID: "sha256:a", Delay: 2 * time.Second})
		n.Inject(fakecri.RemoveImage, fakecri.Fault{ID: "sha256:c", Err: status.Error(codes.NotFound, "image not found")})
		time.AfterFunc(time.Second, func() {
			_, _ = n.ImageClient().RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: "sha256:b"}})
		})
		released, err := n.collectImages(t)
		if err != nil || released.Bytes != 1000 {
			t.Errorf("freed %+v, error %v, want the size of one", released, err)
		}
		wantIn(t, "message", released.Message, "removed 1 images, 1000 bytes")
	})
}

// 500 containers at 60 ms take as long as the host waits for a sign of life, and as
// the plugin has for a look at the images.
func TestASlowRuntimeIsAskedToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aged(t, gc.Settings{})
		n.addImages("free")
		for i := range 10 {
			p := fakecri.Pod{UID: fmt.Sprint(i)}
			for range 50 {
				p.Containers = append(p.Containers, fakecri.Container{Name: "c"})
			}
			n.Add(p)
		}
		n.Inject(fakecri.ContainerStatus, fakecri.Fault{Delay: 60 * time.Millisecond})
		short, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := n.collector.Detect(short); !errors.Is(err, context.DeadlineExceeded) && status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("error %v, want the deadline's", err)
		}
		// What it has learned is kept, and one that waits for it is alive.
		started, last, longest := time.Now(), time.Now(), time.Duration(0)
		released, err := n.collector.Images(t.Context(), eviction.Reclaimed{}, func(eviction.Reclaimed) {
			longest = max(longest, time.Since(last))
			last = time.Now()
		})
		if err != nil || released.Bytes != 1000 {
			t.Errorf("freed %+v, error %v", released, err)
		}
		if took := time.Since(started); took > 11*time.Second || longest > time.Second {
			t.Errorf("took %v, the longest time without progress was %v", took, longest)
		}
	})
}

func TestWhoWaitsForAnotherGCIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aged(t, gc.Settings{})
		n.Add(fakecri.Pod{UID: "p", NotReady: true, Containers: []fakecri.Container{{Name: "a", Exited: true}}})
		n.Inject(fakecri.RemoveContainer, fakecri.Fault{Delay: 55 * time.Second})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = n.collector.Containers(t.Context(), nil, true, nil) })
		synctest.Wait()
		last, longest := time.Now(), time.Duration(0)
		_, err := n.collector.Images(t.Context(), eviction.Reclaimed{}, func(eviction.Reclaimed) {
			longest = max(longest, time.Since(last))
			last = time.Now()
		})
		if err != nil || longest > 10*time.Second {
			t.Errorf("no progress for %v, error %v", longest, err)
		}
		wg.Wait()
	})
}

// askTwice is the time of two queries without an answer: the second one waits for a second.
const askTwice = 11 * time.Second

func TestARuntimeThatHangsOnImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aged(t, gc.Settings{})
		n.addImages("a", "b", "c", "d")
		n.Inject(fakecri.RemoveImage, fakecri.Fault{Hang: true})
		started := time.Now()
		_, err := n.collectImages(t)
		if err == nil || !strings.Contains(err.Error(), "gave up") || time.Since(started) > 2*time.Minute {
			t.Errorf("error %v after %v", err, time.Since(started))
		}
		if got := len(n.Calls(fakecri.RemoveImage)); got != 2 {
			t.Errorf("%d removals were tried, want 2", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := aged(t, gc.Settings{})
		n.addImages("a", "b", "c", "d")
		for _, id := range []string{"a", "b", "c", "d"} {
			n.Inject(fakecri.ImageStatus, fakecri.Fault{ID: "sha256:" + id, Hang: true})
		}
		started := time.Now()
		_, err := n.collectImages(t)
		if err == nil || !strings.Contains(err.Error(), "gave up") || time.Since(started) != askTwice {
			t.Errorf("asked for each image: error %v after %v", err, time.Since(started))
		}
	})
}

// Whatever there is: images in use, pinned ones and the sandbox image stay, and
// all others go, but for those that the runtime does not remove.
func TestOnlyUnusedImagesGo(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 300 {
		s := fakecri.New()
		zero := gc.Duration(0)
		c := gc.New(gc.Options{
			Client: &cri.Client{Runtime: s.Client(), Images: s.ImageClient()}, PodLogsDir: t.TempDir(),
			Settings: gc.Settings{ImageMinimumGCAge: &zero, ContainerLogsDir: "/nonexistent"},
		})
		var all []*runtimeapi.Image
		stay := map[string]bool{}
		for i := range random.IntN(12) {
			image := &runtimeapi.Image{Id: fmt.Sprintf("sha256:%04x", i), Size: uint64(random.IntN(1000)), Pinned: random.IntN(6) == 0}
			for tag := range random.IntN(3) {
				image.RepoTags = append(image.RepoTags, fmt.Sprintf("r%d:%d", i, tag))
			}
			if random.IntN(2) == 0 {
				image.RepoDigests = []string{fmt.Sprintf("r%d@sha256:d", i)}
			}
			stay[image.GetId()] = image.GetPinned()
			all = append(all, image)
			s.AddImage(image)
		}
		// name returns one of the names of some image, which is to stay.
		name := func(ids bool) string {
			if len(all) == 0 {
				return ""
			}
			image := all[random.IntN(len(all))]
			stay[image.GetId()] = true
			names := slices.Concat([]string{image.GetId()}, image.GetRepoDigests(), image.GetRepoTags())
			if ids {
				return names[0]
			}
			return names[random.IntN(len(names))]
		}
		for i := range random.IntN(6) {
			one := fakecri.Container{Name: "c", Exited: random.IntN(2) == 0, Created: random.IntN(4) == 0}
			switch random.IntN(4) {
			case 0:
				one.ImageID = name(true)
			case 1:
				one.ImageRef = name(false)
			case 2:
				one.Image = name(false)
			case 3:
				one.ImageID, one.ImageVolumes = name(true), []string{name(true)}
			}
			s.Add(fakecri.Pod{UID: fmt.Sprint(i), NotReady: random.IntN(2) == 0, Containers: []fakecri.Container{one}})
		}
		s.SetSandboxImage("registry.k8s.io/pause:3.10") // which is not there
		if random.IntN(2) == 0 {
			s.SetSandboxImage(cmp.Or(name(false), "pause"))
		}
		var stuck string
		if len(all) > 0 && random.IntN(3) == 0 {
			stuck = all[random.IntN(len(all))].GetId()
			s.Inject(fakecri.RemoveImage, fakecri.Fault{ID: stuck, Err: status.Error(codes.Internal, "busy")})
		}
		var want []string
		for _, image := range all {
			if stay[image.GetId()] || image.GetId() == stuck {
				want = append(want, image.GetId())
			}
		}
		_, err := c.Images(t.Context(), eviction.Reclaimed{}, nil)
		if got := s.ImageIDs(); !slices.Equal(got, want) {
			t.Fatalf("round %d: left %v, want %v (error %v)", round, got, want, err)
		}
		if (err != nil) != (stuck != "" && !stay[stuck]) {
			t.Fatalf("round %d: error %v", round, err)
		}
	}
}
