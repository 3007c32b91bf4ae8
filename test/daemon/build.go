package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Programs are the packages that tests run as processes, by binary name.
var programs = map[string]string{
	"evictd":     "./host/cmd/evictd",
	"memory":     "./plugins/memory/cmd/memory",
	"disk":       "./plugins/disk/cmd/disk",
	"pid":        "./plugins/pid/cmd/pid",
	"oldest":     "./sdk/examples/oldest",
	"cost-aware": "./sdk/examples/cost-aware",
	"acme-disk":  "./sdk/examples/acme-disk",
	"nvme-spare": "./sdk/examples/nvme-spare",
	"faulty":     "./test/faulty",
	"broken":     "./test/faults/cmd/broken",
	"drive":      "./test/ownsignal/drive",
}

var built struct {
	mu    sync.Mutex
	dir   string
	ready map[string]error
}

// Build returns the path of a program's binary, built once per test process.
func Build(t testing.TB, name string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "evictd-test-bin-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.ready = dir, map[string]error{}
	}
	out := filepath.Join(built.dir, name)
	if _, ok := built.ready[name]; !ok {
		built.ready[name] = build(t, name, out)
	}
	if err := built.ready[name]; err != nil {
		t.Fatal(err)
	}
	return out
}

func build(t testing.TB, name, out string) error {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", out, programs[name])
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, msg)
	}
	return nil
}

// Cleanup removes what Build made. Call it at the end of TestMain.
func Cleanup() {
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no go.mod above %s", dir)
}
