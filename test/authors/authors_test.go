package authors

import (
	"context"
	_ "embed"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/test/daemon"
	"github.com/evictd/evictd/test/fakecri"
)

//go:embed node.sh
var nodeScript string

func TestMain(m *testing.M) {
	code := m.Run()
	daemon.Cleanup()
	os.Exit(code)
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
}

// follow runs a script in an empty directory and returns what it prints.
func follow(t *testing.T, text string, environment ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "bash", "-c", text)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), environment...)
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
	out := follow(t, nodeScript+script(t, readDocument(t), demo),
		"RUNTIME_SOCKET="+socket, "LISTEN_ADDRESS="+freeAddress(t), "EVICTD_LOG="+log)
	t.Cleanup(func() {
		if t.Failed() {
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
}

// The demo evicts another pod with the module as it was made, and yet another with
// the reader's own rule.
func TestTheDocumentsPluginChangesTheVictim(t *testing.T) {
	if os.Getenv("EVICTD_TEST_E2E") != "1" {
		t.Skip("needs root and real containers: run make e2e")
	}
	out := follow(t, "set -euo pipefail\n"+script(t, readDocument(t), node))
	var verdicts []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "demo: ") {
			verdicts = append(verdicts, line)
		}
	}
	want := []string{"evicted demo/steady instead of demo/hog", "evicted demo/reserved instead of demo/hog"}
	if len(verdicts) != len(want) {
		t.Fatalf("%d demos, want %d:\n%s", len(verdicts), len(want), out)
	}
	for i, w := range want {
		if !strings.Contains(verdicts[i], w) || !strings.Contains(verdicts[i], "ranked by deletion-cost") {
			t.Errorf("demo %d: %s, want %q and the plugin's ranking", i+1, verdicts[i], w)
		}
	}
}

func rowOf(table, plugin string) string {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, plugin+" ") {
			return line
		}
	}
	return ""
}

// freeAddress is one that nobody listens on at the moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
