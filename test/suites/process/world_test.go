package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// A world is a node with 8 GiB, a runtime and a directory of manifests.
type world struct {
	t         *testing.T
	node      *daemon.Node
	runtime   *fakecri.Server
	manifests string
	config    map[string]any
}

// newWorld makes a world with two pods, of which big uses more and ends the
// pressure with its end. With its configuration memory.available must not fall
// under 1 GiB.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	w.pod("big", 2*gib, fakecri.Container{Name: "main", OnTerm: w.relief})
	w.pod("small", 100*mib, fakecri.Container{Name: "main"})
	return w
}

// emptyWorld is one without pods.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs real processes: run make test")
	}
	w := &world{t: t, node: daemon.NewNode(t, 8*gib), runtime: fakecri.Start(t), manifests: t.TempDir()}
	w.config = map[string]any{
		"rootDir":            w.node.Root,
		"runtimeEndpoint":    w.runtime.Endpoint(),
		"podManifestDir":     w.manifests,
		"monitoringInterval": "50ms",
		"evictionHard":       map[string]string{"memory.available": "1Gi"},
	}
	return w
}

// pod runs a BestEffort pod that uses so much memory.
func (w *world) pod(name string, usage int64, c fakecri.Container) {
	w.t.Helper()
	uid := "uid-" + name
	w.node.AddPod("besteffort", uid, usage)
	added := w.runtime.Add(fakecri.Pod{UID: uid, Namespace: "default", Name: name, Containers: []fakecri.Container{c}})
	w.node.AddContainers("besteffort", uid, added.ContainerIDs)
	w.manifest(name+".yaml", name, uid)
}

func (w *world) manifest(file, name, uid string) {
	w.t.Helper()
	text := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, uid: %s}
spec:
  containers:
  - {name: main, image: none}
`, name, uid)
	if err := os.WriteFile(filepath.Join(w.manifests, file), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// plugins has the daemon run these plugins: programs of test/harness/daemon, or modes of
// the broken one.
func (w *world) plugins(names ...string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	for _, name := range names {
		program := "broken"
		switch name {
		case "memory", "disk", "pid", "oldest":
			program = name
		}
		daemon.Install(w.t, daemon.Build(w.t, program), filepath.Join(dir, name))
	}
	w.config["pluginDir"] = dir
	return dir
}

func (w *world) start() *daemon.Daemon {
	w.t.Helper()
	return daemon.Start(w.t, w.config)
}

func (w *world) startReady() *daemon.Daemon {
	w.t.Helper()
	d := w.start()
	d.AwaitReady()
	return d
}

// pressure takes memory.available far under the threshold.
func (w *world) pressure() { w.node.SetAvailable(gib / 4) }

// relief takes it back.
func (w *world) relief() { w.node.SetAvailable(6 * gib) }

// kills counts the containers that were stopped.
func (w *world) kills() int { return len(w.runtime.Stopped()) }

// gone waits until a pod runs no more.
func (w *world) gone(name string, within time.Duration) {
	w.t.Helper()
	daemon.Eventually(w.t, within, func() error {
		if w.runtime.Running("uid-" + name) {
			return fmt.Errorf("pod %s still runs", name)
		}
		return nil
	})
}

func wantAll(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s does not say %q:\n%s", what, p, text)
		}
	}
}
