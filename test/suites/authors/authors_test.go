package authors

import (
	"context"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

//go:embed node.sh
var nodeScript string

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
}

// follow runs a script in an empty directory and returns what it prints.
func follow(t *testing.T, dir, text string, environment ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "bash", "-c", text)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED="), environment...) // a reader's, not that of make e2e
	// Ended as a whole: its children hold the output open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the document cannot be followed: %v\n%s", err, out)
	}
	return string(out)
}

// All that the document has a reader do but for the demo: modules are made, built,
// tested and verified, and one of them is put onto a node and pinned.
func TestTheDocumentCanBeFollowed(t *testing.T) {
	needsRoot(t)
	runtime := fakecri.New()
	socket := filepath.Join(daemon.RunDir(t), "containerd.sock")
	if err := runtime.Listen(socket); err != nil {
		t.Fatal(err)
	}
	defer runtime.Die()
	log := filepath.Join(t.TempDir(), "log")
	dir := t.TempDir()
	out := follow(t, dir, nodeScript+script(t, readDocument(t), demo),
		"RUNTIME_SOCKET="+socket, "EVICTD_LOG="+log)
	t.Cleanup(func() {
		if t.Failed() || testing.Verbose() {
			text, _ := os.ReadFile(log)
			t.Logf("the commands:\n%s\nlog of evictd:\n%s", out, text)
		}
	})

	// The two tables of evictd's plugins: in charge of the ranking, before and after
	// its settings.
	tables := strings.Split(out, "\nPLUGIN ")
	if len(tables) != 3 {
		t.Fatalf("%d tables of plugins, want 2", len(tables)-1)
	}
	for _, table := range tables[1:] {
		if row := rowOf(table, "deletion-cost"); !strings.Contains(row, "running") || !strings.Contains(row, "memory.available") || strings.Count(row, "rank") < 2 {
			t.Errorf("deletion-cost is shown as %q, want it running and in charge of the ranking", row)
		}
	}
	if strings.Contains(out, "FAIL") {
		t.Error("something failed that is not an error")
	}
	t.Run("one evictd runs all three", func(t *testing.T) { serve(t, dir, runtime) })
}

// serve starts evictd with the plugins that the document has left in dir, each of
// which has to be in charge of what it is for.
func serve(t *testing.T, dir string, runtime *fakecri.Server) {
	pluginDir := daemon.PluginDir(t, "memory", "disk")
	for _, name := range []string{"deletion-cost", "file-handles", "cache-disk"} {
		daemon.Install(t, filepath.Join(dir, name, "bin", name), filepath.Join(pluginDir, name))
	}
	kubelet := t.TempDir()
	fs := []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: kubelet}}}
	runtime.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: fs, ContainerFilesystems: fs})
	d := daemon.Start(t, map[string]any{
		"pluginDir":       pluginDir,
		"kubeletRootDir":  kubelet,
		"runtimeEndpoint": runtime.Endpoint(),
		"evictionHard":    map[string]string{"memory.available": "1", "nodefs.available": "1", "example.com/filehandles.free": "5"},
		"requiredSignals": []string{"memory.available", "nodefs.available", "example.com/filehandles.free"},
		"dryRun":          true,
		"plugins":         settings(t)["plugins"],
	})
	d.AwaitReady()
	want := map[string]string{
		"deletion-cost memory.available":            "rank",
		"file-handles example.com/filehandles.free": "observe,rank",
		"cache-disk nodefs.available":               "reclaim",
	}
	for name := range want {
		plugin, _, _ := strings.Cut(name, " ")
		d.Await(plugin+" is started", 20*time.Second, func(r evictd.Record) bool {
			return r.Msg == "plugin started" && r.String("plugin") == plugin
		})
	}
	got := inCharge(t, d)
	for name, capabilities := range want {
		if got[name] != capabilities {
			t.Errorf("%s: in charge of %q, want %q", name, got[name], capabilities)
		}
	}
	// Healthy once all required signals have been observed.
	deadline := time.Now().Add(20 * time.Second)
	for {
		code, page := d.Get("/healthz")
		if code == 200 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("healthz: %d %s", code, page)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// settings are those that the document shows.
func settings(t *testing.T) map[string]any {
	t.Helper()
	for _, b := range readDocument(t) {
		if b.language == shown && b.label == "" {
			var s map[string]any
			if err := yaml.UnmarshalStrict([]byte(b.text), &s); err != nil {
				t.Fatalf("line %d: %v", b.line, err)
			}
			return s
		}
	}
	t.Fatal("the document has no settings")
	return nil
}

// inCharge returns what plugins are in charge of, by "plugin signal".
func inCharge(t *testing.T, d *daemon.Daemon) map[string]string {
	t.Helper()
	_, page := d.Get("/status")
	var status struct {
		Plugins []struct {
			Name    string
			Signals []struct {
				Signal   string
				InCharge []string
			}
		}
	}
	if err := json.Unmarshal([]byte(page), &status); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, p := range status.Plugins {
		for _, s := range p.Signals {
			all[p.Name+" "+s.Signal] = strings.Join(s.InCharge, ",")
		}
	}
	return all
}

func rowOf(table, plugin string) string {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, plugin+" ") {
			return line
		}
	}
	return ""
}
