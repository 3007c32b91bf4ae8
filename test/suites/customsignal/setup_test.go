package customsignal

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

const (
	spare = "acme.example/nvme.spare"
	wear  = "acme.example/nvme.wear"
	nvme  = "acme.example/NVMePressure"
	// within bounds the waits of tests for what takes milliseconds.
	within = 15 * time.Second
	// transition is the period of conditions in these tests.
	transition = 2 * time.Second
)

// A node is an evictd with the drive's plugin, and two pods.
type node struct {
	*daemon.Daemon
	t *testing.T
	// plugins is the plugin directory, files what the plugin reads.
	plugins, files string
	runtime        *fakecri.Server
}

// start runs evictd on a drive with 5000 of 10000 spare blocks and as many cycles
// left, under pods that use little and much of it. names are its plugins.
func start(t *testing.T, config map[string]any, names ...string) *node {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs real processes: run make test")
	}
	n := &node{t: t, plugins: daemon.PluginDir(t, names...), files: t.TempDir(), runtime: fakecri.Start(t)}
	memory := daemon.NewNode(t, 8<<30)
	memory.SetAvailable(7 << 30)
	manifests := t.TempDir()
	for name, used := range map[string]int{"little": 10, "much": 900} {
		n.write("used-uid-"+name, fmt.Sprint(used))
		memory.AddPod("besteffort", "uid-"+name, 1<<20)
		added := n.runtime.Add(fakecri.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Containers: []fakecri.Container{{Name: "main"}}})
		memory.AddContainers("besteffort", "uid-"+name, added.ContainerIDs)
		manifest := fmt.Appendf(nil, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default, uid: uid-%s}\nspec: {containers: [{name: main, image: none}]}\n", name, name)
		testos.WriteFile(t, filepath.Join(manifests, name+".yaml"), manifest, 0o644)
	}
	n.write("spare", "5000 10000")
	n.write("wear", "5000 10000")
	full := map[string]any{
		"pluginDir":                        n.plugins,
		"plugins":                          map[string]any{"drive": map[string]any{"required": false, "config": map[string]any{"dir": n.files}}},
		"evictionHard":                     map[string]string{"memory.available": "1Mi", spare: "10%"},
		"evictionSoft":                     map[string]string{wear: "100"},
		"evictionSoftGracePeriod":          map[string]string{wear: "1s"},
		"evictionMaxPodGracePeriod":        7,
		"evictionPressureTransitionPeriod": transition.String(),
		"monitoringInterval":               "200ms",
		"rootDir":                          memory.Root,
		"runtimeEndpoint":                  n.runtime.Endpoint(),
		"podManifestDir":                   manifests,
	}
	maps.Copy(full, config)
	n.Daemon = daemon.Start(t, full)
	n.AwaitReady()
	return n
}

// write replaces a file that the plugin reads in one step.
func (n *node) write(name, content string) {
	n.t.Helper()
	tmp := filepath.Join(n.files, ".tmp")
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(n.files, name)); err != nil {
		n.t.Fatal(err)
	}
}

// install puts the drive's plugin in place in one step, with something appended.
func (n *node) install(appended string) {
	n.t.Helper()
	binary, err := os.ReadFile(daemon.Build(n.t, "drive"))
	if err != nil {
		n.t.Fatal(err)
	}
	tmp := filepath.Join(n.plugins, "drive.tmp")
	if err := os.WriteFile(tmp, append(binary, appended...), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(n.plugins, "drive")); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) remove() {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.plugins, "drive")); err != nil {
		n.t.Fatal(err)
	}
}

// status is the part of /status that is looked at.
type status struct {
	NotReady   string
	Passes     uint64
	Conditions []string
	Thresholds []struct {
		Signal     string
		Since      *time.Time
		Unobserved bool
		Custom     *struct{ Unit, Format, Resource, Condition string }
	}
	Signals []struct{ Signal, State string }
}

func (n *node) status() status {
	n.t.Helper()
	_, page := n.Get("/status")
	var s status
	if err := json.Unmarshal([]byte(page), &s); err != nil {
		n.t.Fatal(err)
	}
	return s
}

func (n *node) eventually(what string, ok func(status) bool) status {
	n.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(within); ; <-tick.C {
		s := n.status()
		if ok(s) {
			return s
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("not within %v: %s; status %+v", within, what, s)
		}
	}
}

// observed reports whether a signal's thresholds are in force.
func (s status) observed(signal string) bool {
	for _, t := range s.Thresholds {
		if t.Signal == signal && t.Unobserved {
			return false
		}
	}
	return true
}

func (s status) under(condition string) bool { return slices.Contains(s.Conditions, condition) }

func (n *node) event(kind, reason string) evictd.Record {
	n.t.Helper()
	return n.Await("event "+reason, within, func(r evictd.Record) bool {
		return r.Msg == "event" && r.String("kind") == kind && r.String("reason") == reason
	})
}

// metric returns the value of a metric, "" if there is none.
func (n *node) metric(name string) string {
	n.t.Helper()
	_, page := n.Get("/metrics")
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (n *node) healthy() bool {
	n.t.Helper()
	code, _ := n.Get("/healthz")
	return code == http.StatusOK
}
