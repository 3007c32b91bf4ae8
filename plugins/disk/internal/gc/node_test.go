package gc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// node is a fake runtime, directories of logs, and a collector for both.
type node struct {
	*fakecri.Server
	logs, links string
	collector   *gc.Collector
	progress    []eviction.Reclaimed
}

// newNode has a clock that is an hour ahead, so that nothing on it is new.
func newNode(t *testing.T, s gc.Settings) *node {
	t.Helper()
	n := &node{Server: fakecri.New(), logs: filepath.Join(t.TempDir(), "pods"), links: filepath.Join(t.TempDir(), "containers")}
	for _, dir := range []string{n.logs, n.links} {
		testos.Mkdir(t, dir, 0o755)
	}
	n.SetSandboxImage("registry.k8s.io/pause:3.10")
	s.ContainerLogsDir = n.links
	n.collector = gc.New(gc.Options{
		Client:     &cri.Client{Runtime: n.Client(), Images: n.ImageClient()},
		PodLogsDir: n.logs, Settings: s,
		Now: func() time.Time { return time.Now().Add(time.Hour) },
	})
	return n
}

// pod adds a pod with containers "name", "name:exited", "name:lost" or
// "name:created", oldest first, each with a log of 5000 bytes, a rotated one, and a
// writable layer of 1000 bytes and 2 inodes.
func (n *node) pod(t *testing.T, uid string, ready bool, containers ...string) fakecri.Added {
	t.Helper()
	p := fakecri.Pod{UID: uid, Namespace: "ns", Name: "pod-" + uid, NotReady: !ready}
	for i, text := range containers {
		name, state, _ := strings.Cut(text, ":")
		log := filepath.Join(n.logDir(uid), name, fmt.Sprint(i, ".log"))
		write(t, log, 5000)
		write(t, log+".20260101-000000", 5000)
		p.Containers = append(p.Containers, fakecri.Container{
			ID:   fmt.Sprintf("%s_%05d", name, i+2), // no dash, as in a runtime's ids
			Name: name, Attempt: uint32(i), Exited: state == "exited", Lost: state == "lost", Created: state == "created",
			LogPath: log, LayerBytes: 1000, LayerInodes: 2,
		})
	}
	added := n.Add(p)
	for i, id := range added.ContainerIDs {
		name, _, _ := strings.Cut(containers[i], ":")
		link := filepath.Join(n.links, fmt.Sprintf("pod-%s_ns_%s-%s.log", uid, name, id))
		testos.Symlink(t, p.Containers[i].LogPath, link)
	}
	return added
}

func (n *node) logDir(uid string) string { return filepath.Join(n.logs, "ns_pod-"+uid+"_"+uid) }

func (n *node) containers(t *testing.T, ready bool, pods ...eviction.PodPhase) (eviction.Reclaimed, error) {
	t.Helper()
	n.progress = nil
	return n.collector.Containers(t.Context(), pods, ready, n.note)
}

func (n *node) note(r eviction.Reclaimed) { n.progress = append(n.progress, r) }

// left are the ids of the containers, and the names of the log directories.
func (n *node) left(t *testing.T) string {
	t.Helper()
	out := n.ContainerIDs()
	for _, dir := range names(t, n.logs) {
		out = append(out, dir[strings.LastIndexByte(dir, '_')+1:])
	}
	return strings.ReplaceAll(strings.Join(out, " "), "_0000", "-")
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func write(t *testing.T, path string, size int) {
	t.Helper()
	testos.Put(t, path, make([]byte, size), 0o644)
}

func is(uid string, s eviction.PodState) eviction.PodPhase {
	return eviction.PodPhase{UID: uid, State: s}
}

// wantIn checks that a text has parts.
func wantIn(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s is %q, want %q in it", what, text, part)
		}
	}
}

// sorted joins words in order.
func sorted(words ...string) string {
	slices.Sort(words)
	return strings.Join(words, " ")
}
