package gc_test

import (
	"math"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
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
				freed, err := n.containers(t, true, is("p", eviction.PodActive))
				if took := time.Since(started); err != nil || took != c.want {
					t.Errorf("took %v, want %v; error %v", took, c.want, err)
				}
				if c.layerBytes > 0 {
					wantIn(t, "message", freed.Message, "free on "+dir+": ")
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
	freed, err := n.containers(t, true)
	if err != nil || freed.Bytes != math.MaxInt64 || freed.Inodes != math.MaxInt64 {
		t.Errorf("container GC freed %+v, error %v", freed, err)
	}
	n = aged(t, gc.Settings{})
	for _, id := range []string{"sha256:a", "sha256:b"} {
		n.AddImage(&runtimeapi.Image{Id: id, Size: 1<<64 - 1})
	}
	if freed, err := n.collectImages(t); err != nil || freed.Bytes != math.MaxInt64 {
		t.Errorf("image GC freed %+v, error %v", freed, err)
	}
	for _, r := range n.progress {
		if r.Bytes < 0 {
			t.Errorf("progress %+v", r)
		}
	}
}
