package gc_test

import (
	"math"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// A runtime says that a layer is gone before its space is free. Container GC waits
// for the space, but not for ever: others may use it up as it comes.
func TestItWaitsForTheSpaceOfRemovedLayers(t *testing.T) {
	for name, c := range map[string]struct {
		layerBytes uint64
		want       time.Duration
	}{
		"nothing was removed":      {0, 0},
		"more than will ever come": {1 << 60, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, gc.Settings{})
				fs := []*runtimeapi.FilesystemUsage{
					{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: dir}},
					{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: filepath.Join(dir, "..")}}, // the same filesystem counts once
					{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: filepath.Join(dir, "gone")}},
				}
				n.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: fs[:1], ContainerFilesystems: fs[1:]})
				if c.layerBytes > 0 {
					n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{
						{Name: "a", Exited: true, LayerBytes: c.layerBytes}, {Name: "a", Exited: true},
					}})
				}
				started := time.Now()
				released, err := n.containers(t, true, is("p", eviction.PodActive))
				if took := time.Since(started); err != nil || took != c.want {
					t.Errorf("took %v, want %v; error %v", took, c.want, err)
				}
				if c.layerBytes > 0 {
					wantIn(t, "message", released.Message, "free on "+dir+": ")
				}
			})
		})
	}
}

// A runtime may say anything.
func TestFiguresEndAtTheLargestNumber(t *testing.T) {
	n := newNode(t, gc.Settings{})
	huge := fakecri.Container{Name: "a", Exited: true, LayerBytes: 1<<64 - 1, LayerInodes: 1<<64 - 1}
	n.Add(fakecri.Pod{UID: "p", NotReady: true, Containers: []fakecri.Container{huge, huge}})
	released, err := n.containers(t, true)
	if err != nil || released.Bytes != math.MaxInt64 || released.Inodes != math.MaxInt64 {
		t.Errorf("container GC freed %+v, error %v", released, err)
	}
	n = aged(t, gc.Settings{})
	for _, id := range []string{"sha256:a", "sha256:b"} {
		n.AddImage(&runtimeapi.Image{Id: id, Size: 1<<64 - 1})
	}
	if released, err := n.collectImages(t); err != nil || released.Bytes != math.MaxInt64 {
		t.Errorf("image GC freed %+v, error %v", released, err)
	}
	for _, r := range n.progress {
		if r.Bytes < 0 {
			t.Errorf("progress %+v", r)
		}
	}
}

// A pod was evicted although the room of the images that had been removed came 0.7 s
// later. Their figures are those of compressed images: that much is there before the rest.
func TestItWaitsForTheSpaceOfRemovedImages(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		comes map[time.Duration]int64
		want  time.Duration
	}{
		"late":                       {map[time.Duration]int64{700 * time.Millisecond: 40 * mib}, 950 * time.Millisecond},
		"first what is compressed":   {map[time.Duration]int64{0: 10 * mib, 200 * time.Millisecond: 40 * mib}, 450 * time.Millisecond},
		"in many pieces":             {map[time.Duration]int64{time.Second: mib, 3 * time.Second: 2 * mib, 5 * time.Second: 10 * mib}, 5250 * time.Millisecond},
		"never: layers are shared":   {nil, 3 * time.Second},
		"less: some layers are also": {map[time.Duration]int64{time.Second: 8 * mib}, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				n := aged(t, gc.Settings{})
				n.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: dir}}}})
				n.AddImage(&runtimeapi.Image{Id: "sha256:a", Size: 10 * mib})
				began := time.Now()
				n.collector = gc.New(gc.Options{
					Client: &cri.Client{Runtime: n.Client(), Images: n.ImageClient()}, PodLogsDir: n.logs, Settings: gc.Settings{ImageMinimumGCAge: new(gc.Duration)},
					Statfs: func(string) (nodefs.FilesystemSample, error) {
						var free int64
						for after, bytes := range c.comes {
							if n.leftImages() == "" && time.Since(began) >= after {
								free = max(free, bytes)
							}
						}
						return nodefs.FilesystemSample{FreeBytes: free}, nil
					},
				})
				got, err := n.collector.Images(t.Context(), eviction.Reclaimed{}, n.note)
				if took := time.Since(began); err != nil || got.Bytes != 10*mib || took != c.want {
					t.Errorf("took %v, want %v; %+v, error %v", took, c.want, got, err)
				}
			})
		})
	}
}
