package gc_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// In a container with the node's root at rootDir the same names are there twice:
// what counts is the node's files, also behind links.
func TestTheNodesFilesAreBelowItsRoot(t *testing.T) {
	n := newNode(t, gc.Settings{})
	root := t.TempDir()
	logs := filepath.Join(root, "disk/pods") // the node has a link to it
	for _, dir := range []string{filepath.Join(root, filepath.Dir(n.logs)), filepath.Join(root, n.links), logs, filepath.Join(root, "images")} {
		testos.MkdirAll(t, dir, 0o755)
	}
	link(t, "/disk/pods", filepath.Join(root, n.logs))
	for _, dir := range []string{n.logs, logs} {
		for _, file := range []string{"ns_gone_gone/c/0.log", "ns_pod-p_p/c/0.log", "ns_pod-p_p/c/1.log"} {
			write(t, filepath.Join(dir, file), 1)
		}
		old(t, filepath.Join(dir, "ns_gone_gone"))
	}
	there, gone := filepath.Join(n.logs, "ns_pod-p_p/c/1.log"), filepath.Join(n.logs, "ns_pod-p_p/c/0.log")
	for _, dir := range []string{n.links, filepath.Join(root, n.links)} {
		link(t, there, filepath.Join(dir, "p_ns_c-instance1.log"))
		link(t, gone, filepath.Join(dir, "p_ns_c-instance0.log"))
		link(t, "p_ns_c-loop0000.log", filepath.Join(dir, "p_ns_c-loop0000.log"))
	}
	n.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/images"}}}})
	n.Add(fakecri.Pod{UID: "p", Namespace: "ns", Name: "pod-p", Containers: []fakecri.Container{
		{ID: "instance0", Name: "c", Exited: true, LogPath: gone}, {ID: "instance1", Name: "c", Exited: true, LogPath: there},
	}})
	n.collector = gc.New(gc.Options{
		Client: &cri.Client{Runtime: n.Client(), Images: n.ImageClient()}, Root: nodefs.FS{Root: root},
		PodLogsDir: n.logs, Settings: gc.Settings{ContainerLogsDir: n.links},
		Now: func() time.Time { return time.Now().Add(time.Hour) },
	})
	released, err := n.containers(t, true, is("p", eviction.PodActive))
	if err != nil {
		t.Error(err)
	}
	wantIn(t, "message", released.Message, "removed 1 container, 1 log directory, 1 dead log link", "free on /images: ")
	for dir, want := range map[string]string{
		n.logs: "ns_gone_gone ns_pod-p_p", filepath.Join(n.logs, "ns_pod-p_p/c"): "0.log 1.log",
		n.links: "p_ns_c-instance0.log p_ns_c-instance1.log p_ns_c-loop0000.log",
		logs:    "ns_pod-p_p", filepath.Join(logs, "ns_pod-p_p/c"): "1.log",
		filepath.Join(root, n.links): "p_ns_c-instance1.log p_ns_c-loop0000.log",
	} {
		if got := strings.Join(names(t, dir), " "); got != want {
			t.Errorf("in %s %q is left, want %q", dir, got, want)
		}
	}
}
