package nodejs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/contained"
	"github.com/evictd/evictd/test/harness/daemon"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
	// maxWait is for what a loaded machine does late; a start is 0.2 s.
	maxWait = 10 * time.Second
)

// A world is a node with the plugin and two pods: web, which every other ranker
// would take first, and batch, which the plugin takes.
type world struct {
	node    *daemon.Node
	runtime *fakecri.Server
	config  map[string]any
}

func newWorld(t *testing.T) *world {
	t.Helper()
	file := plugin(t)
	w := &world{node: daemon.NewNode(t, 8*gib), runtime: fakecri.Start(t)}
	manifests, run := t.TempDir(), daemon.RunDir(t)
	// A plugin of another user must reach its socket.
	testos.Chmod(t, run, 0o711)
	w.config = map[string]any{
		"pluginDir":          daemon.PluginDir(t),
		"runDir":             run,
		"rootDir":            w.node.Root,
		"runtimeEndpoint":    w.runtime.Endpoint(),
		"podManifestDir":     manifests,
		"monitoringInterval": "50ms",
		"evictionHard":       map[string]string{"memory.available": "1Gi"},
	}
	daemon.Install(t, file, filepath.Join(w.config["pluginDir"].(string), "node-rank"))
	for name, use := range map[string]int64{"web": 2 * gib, "batch": 100 * mib} {
		w.node.AddPod("besteffort", "uid-"+name, use)
		added := w.runtime.Add(fakecri.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Containers: []fakecri.Container{
			{Name: "main", OnTerm: func() { w.node.SetAvailable(6 * gib) }},
		}})
		w.node.AddContainers("besteffort", "uid-"+name, added.ContainerIDs)
		manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default, uid: uid-%[1]s, labels: {tier: %[1]s}}\n"+
			"spec: {containers: [{name: main, image: none}]}\n", name)
		testos.WriteFile(t, filepath.Join(manifests, name+".yaml"), manifest, 0o644)
	}
	return w
}

func (w *world) settings(of map[string]any) {
	w.config["plugins"] = map[string]any{"node-rank": of}
}

func TestThePluginSaysWhoGoes(t *testing.T) {
	content := testos.ReadFile(t, plugin(t))
	pin := fmt.Sprintf("%x", sha256.Sum256(content))
	for name, c := range map[string]struct {
		settings map[string]any
		victim   string
		reason   string
	}{
		"by default":         {nil, "batch", "tier batch, 104857600 bytes beyond its request, priority 0"},
		"without TLS":        {map[string]any{"autoMTLS": false}, "batch", "tier batch"},
		"pinned":             {map[string]any{"sha256": pin}, "batch", "tier batch"},
		"as another user":    {map[string]any{"user": "nobody"}, "batch", "tier batch"},
		"as it is told":      {map[string]any{"config": map[string]any{"tiers": []string{"web", "batch"}}}, "web", "tier web"},
		"no tier goes first": {map[string]any{"config": map[string]any{"tiers": []string{}}}, "web", "no tier that goes first"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settings(c.settings)
			d := daemon.Start(t, w.config)
			d.AwaitReady()
			w.node.SetAvailable(gib / 4)
			got := d.AwaitMsg("evicting pod", maxWait)
			if got.String("pod") != "default/"+c.victim || got.String("ranker") != "node-rank" || !strings.HasPrefix(got.String("rankReason"), c.reason) {
				t.Errorf("%s by %s because of %q, want %s by node-rank because of %q",
					got.String("pod"), got.String("ranker"), got.String("rankReason"), c.victim, c.reason)
			}
			d.AwaitMsg("pod finished", maxWait)
			if w.runtime.Running("uid-" + c.victim) {
				t.Errorf("pod %s still runs", c.victim)
			}
		})
	}
}

func TestAConfigurationThatThePluginRefuses(t *testing.T) {
	w := newWorld(t)
	w.settings(map[string]any{"config": map[string]any{"tires": []string{"batch"}}})
	d := daemon.Start(t, w.config)
	d.AwaitReady()
	if why := d.AwaitMsg("plugin did not start", maxWait).String("error"); !strings.Contains(why, `unknown field "tires"`) {
		t.Errorf("refused because of %q, want the unknown field", why)
	}
	w.node.SetAvailable(gib / 4)
	if got := d.AwaitMsg("evicting pod", maxWait); got.String("ranker") != "memory" || got.String("pod") != "default/web" {
		t.Errorf("%s by %s, want default/web by memory", got.String("pod"), got.String("ranker"))
	}
}

func TestThePluginKeepsTheContract(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	out, err := exec.CommandContext(ctx, daemon.Build(t, "evictd"), "plugins", "verify", plugin(t)).CombinedOutput()
	if err != nil {
		t.Fatalf("evictd plugins verify: %v\n%s", err, out)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v, want at most 30 s", took)
	}
}

func TestThePluginServesInAContainer(t *testing.T) { contained.Serves(t, "node-rank", plugin(t)) }

// The interpreter is the child, so the plugin is called node here.
func TestThePluginLeavesWithTheHost(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"told to end": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := daemon.Start(t, w.config)
			d.AwaitReady()
			pid := d.Plugins()["node"]
			if pid == 0 {
				t.Fatalf("no plugin of Node.js among %v", d.Plugins())
			}
			d.Signal(signal)
			d.Wait(maxWait)
			for deadline := time.Now().Add(maxWait); daemon.Alive(pid); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the plugin lives on as process %d", pid)
				}
			}
			if signal == syscall.SIGKILL {
				return
			}
			for _, end := range d.Records("plugin exited") {
				if end.String("status") != "exit status 0" {
					t.Errorf("%s ended with %s, want exit status 0", end.String("plugin"), end.String("status"))
				}
			}
		})
	}
}

// Executed by an open descriptor, as a pinned plugin is, the file that runs is the
// one that was opened, whatever its path leads to by then.
func TestTheOpenedFileIsTheOneThatRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node-rank")
	daemon.Install(t, plugin(t), path)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	other := filepath.Join(t.TempDir(), "other")
	testos.WriteFile(t, other, "#!/bin/sh\necho another file ran >&2\n", 0o755)
	testos.Rename(t, other, path)
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{file}
	cmd.Env = []string{"UNUSED="} // and no cookie
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "plugin that evictd starts") {
		t.Errorf("%v, %s; want the plugin to say that evictd starts it", err, out)
	}
}
