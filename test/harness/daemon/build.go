package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// programs are the packages that tests run as processes, by binary name.
var programs = map[string]string{
	"evictd":     "./host/cmd/evictd",
	"memory":     "./host/cmd/evictd",
	"disk":       "./host/cmd/evictd",
	"mounts":     "./host/cmd/evictd",
	"pid":        "./host/cmd/evictd",
	"pressure":   "./host/cmd/evictd",
	"oldest":     "github.com/evictd/evictd/sdk/examples/oldest",
	"cost-aware": "github.com/evictd/evictd/sdk/examples/cost-aware",
	"acme-disk":  "./plugins/disk/examples/acme-disk",
	"nvme-spare": "github.com/evictd/evictd/sdk/examples/nvme-spare",
	"broken":     "./test/fakes/broken",
	"drive":      "./test/suites/customsignal/drive",
}

var built sync.Map // of func() error by name

// Build returns the path of a program's binary, which it builds at most once per test process.
// The binary is in bin/test of the checkout, so that an up-to-date one is not linked again.
func Build(t testing.TB, name string) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(root, "bin", "test", name)
	ready, _ := built.LoadOrStore(name, sync.OnceValue(func() error { return build(root, name, out) }))
	if err := ready.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return out
}

// build holds a lock: the test processes of other packages build too, and must not replace a
// binary that is in use.
func build(root, name, out string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	lock, err := os.Create(out + ".lock")
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, programs[name])
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, msg)
	}
	return nil
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
