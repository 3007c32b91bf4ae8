package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
)

// Images on a filesystem of their own, writable layers with the kubelet's files:
// no containerd does that, so the runtime is a fake one, whose images and layers
// are files on real filesystems.
func TestSplitFilesystems(t *testing.T) {
	n := newSite(t, stack.Options{
		Bare: true,
		Filesystems: []stack.Filesystem{
			{Path: "node", Type: "ext4", Bytes: 400 * mib},
			{Path: "images", Type: "ext4", Bytes: 300 * mib},
		},
		KubeletRoot: "node/kubelet", PodLogs: "node/logs",
	})
	s := newSplit(t, n.Stack)

	imageDisk, nodeDisk := filepath.Join(n.Dir, "images"), filepath.Join(n.Dir, "node")
	images, nodes := freeOn(t, imageDisk, bytesOf), freeOn(t, nodeDisk, bytesOf)
	n.start(t, map[string]any{"evictionHard": map[string]string{"imagefs.available": strconv.FormatInt(images+60*mib, 10)}})
	n.log.chapter(t, "images' filesystem below the threshold: images go, and nothing else")
	n.log.await(t, "reclaim was enough, no pod has to go")
	checkSteps(t, n.log.records(stepEnded), "image-gc")
	if got := s.ImageIDs(); !slices.Equal(got, []string{"used"}) {
		t.Errorf("images %v are left, want only the one in use", got)
	}
	if got := len(s.ContainerIDs()); got != 5 {
		t.Errorf("%d containers are left, want all 5: they are not on that filesystem", got)
	}
	n.log.awaitCalm(t)
	n.stop(t)

	s.AddImage(s.image(t, "unused-3", 10))
	n.start(t, map[string]any{"evictionHard": map[string]string{"nodefs.available": strconv.FormatInt(nodes+30*mib, 10)}})
	n.log.chapter(t, "the kubelet's filesystem below the threshold: dead containers go, and nothing else")
	n.log.await(t, "reclaim was enough, no pod has to go")
	checkSteps(t, n.log.records(stepEnded), "container-gc")
	if got := s.ContainerIDs(); len(got) != 3 {
		t.Errorf("containers %v are left, want those that run and the last dead one", got)
	}
	if got := s.ImageIDs(); !slices.Contains(got, "unused-3") {
		t.Error("an image is gone that is not on that filesystem")
	}
	n.log.awaitCalm(t)

	n.log.chapter(t, "and again: the pod goes whose volume, log and layers are the largest, those of ended containers too")
	weight := newBallast(t, nodeDisk)
	weight.fillTo(t, bytesOf, nodes+20*mib)
	said := n.log.await(t, "evicting pod")
	n.log.await(t, "pod finished")
	n.log.awaitCalm(t)
	t.Logf("    by the ranking %s", said.String("ranking"))
	n.log.wantEvicted(t, "e2e/hoarder")
}

// checkSteps wants no other step to have run.
func checkSteps(t *testing.T, steps []evictd.Record, want string) {
	t.Helper()
	for _, r := range steps {
		if r.String("step") != want {
			t.Errorf("the step %s ran, want only %s", r.String("step"), want)
		}
	}
}

// A split is the runtime of such a node.
type split struct {
	*fakecri.Server
	images, layers string
}

// newSplit has two unused images and one in use, a pod with three dead containers, and
// one that uses more of everything that counts.
func newSplit(t *testing.T, n *stack.Stack) *split {
	t.Helper()
	s := &split{fakecri.New(), filepath.Join(n.Dir, "images"), filepath.Join(n.Dir, "node/layers")}
	s.SetSandboxImage("registry.k8s.io/pause:3.10")
	must(t, os.MkdirAll(s.layers, 0o755), s.Listen(n.Socket))
	t.Cleanup(s.Die)
	s.SetImageFs(&runtimeapi.ImageFsInfoResponse{
		ImageFilesystems:     []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: s.images}}},
		ContainerFilesystems: []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: s.layers}}},
	})
	s.OnRemove(func(m fakecri.Method, id string) {
		dir := map[fakecri.Method]string{fakecri.RemoveImage: s.images, fakecri.RemoveContainer: s.layers}[m]
		if err := os.Remove(filepath.Join(dir, id)); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	})
	for _, name := range []string{"unused-1", "unused-2", "used"} {
		s.AddImage(s.image(t, name, 40))
	}
	s.add(t, n, "worker", 5, fakecri.Container{Exited: true}, fakecri.Container{Exited: true}, fakecri.Container{Exited: true}, fakecri.Container{})
	hoarder := s.add(t, n, "hoarder", 5, fakecri.Container{})
	writeFile(t, filepath.Join(hoarder.EmptyDir("volume"), "hoard"), 26*mib)
	return s
}

// image makes an image and the file that it is.
func (s *split) image(t *testing.T, name string, mibs int64) *runtimeapi.Image {
	t.Helper()
	writeFile(t, filepath.Join(s.images, name), mibs*mib)
	return &runtimeapi.Image{Id: name, RepoTags: []string{"localhost/e2e/" + name + ":1"}, Size: uint64(mibs * mib)}
}

// add runs a pod of one container with the given lives, each of which has left a
// layer of 20 MiB if it is dead.
func (s *split) add(t *testing.T, n *stack.Stack, name string, liveMiB int64, lives ...fakecri.Container) *stack.Pod {
	t.Helper()
	p, err := n.PutManifest(sketch{name: name, emptyDirs: map[string]string{"volume": ""}}.manifest())
	must(t, err, os.MkdirAll(p.EmptyDir("volume"), 0o755))
	sizes := make([]int64, len(lives))
	for i := range lives {
		sizes[i] = liveMiB * mib
		if lives[i].Exited {
			sizes[i] = 20 * mib
		}
		lives[i].Name, lives[i].Attempt, lives[i].LayerBytes, lives[i].LayerInodes = "main", uint32(i), uint64(sizes[i]), 1
		lives[i].Image, lives[i].ImageID, lives[i].ImageRef = "localhost/e2e/used:1", "used", "used"
		lives[i].LogPath = filepath.Join(p.LogDir(), "main", fmt.Sprintf("%d.log", i))
		writeFile(t, lives[i].LogPath, mib)
	}
	added := s.Add(fakecri.Pod{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Containers: lives})
	for i, id := range added.ContainerIDs {
		writeFile(t, filepath.Join(s.layers, id), sizes[i])
	}
	return p
}

func writeFile(t *testing.T, path string, bytes int64) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, bytes), 0o644))
}
