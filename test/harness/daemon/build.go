package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// programs are the packages that tests run as processes, by binary name.
var programs = map[string]string{
	"evictd":     "./host/cmd/evictd",
	"evictctl":   "./host/cmd/evictctl",
	"oldest":     "github.com/evictd/evictd/sdk/examples/oldest",
	"cost-aware": "github.com/evictd/evictd/sdk/examples/cost-aware",
	"acme-disk":  "./plugins/disk/examples/acme-disk",
	"nvme-spare": "github.com/evictd/evictd/sdk/examples/nvme-spare",
	"broken":     "./test/fakes/broken",
	"drive":      "./test/suites/customsignal/drive",
}

// builtIn are the plugins of evictd, which are links to it.
var builtIn = []string{"memory", "disk", "mounts", "pid", "pressure"}

var built sync.Map // of func() (string, error) by name

// Build returns the path of a program's binary, which it builds at most once per test process.
// The binary is in bin/test of the checkout, so that an up-to-date one is not linked again.
func Build(t testing.TB, name string) string {
	t.Helper()
	program, err := Program(name)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Program is Build without a test.
func Program(name string) (string, error) {
	ready, _ := built.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		out := filepath.Join(root, "bin", "test", name)
		if slices.Contains(builtIn, name) {
			_, err := Program("evictd")
			return out, errors.Join(err, link(out))
		}
		return out, build(root, name, out)
	}))
	return ready.(func() (string, error))()
}

// link makes the link of a built-in plugin.
func link(out string) error {
	if to, _ := os.Readlink(out); to == "evictd" {
		return nil
	}
	beside := fmt.Sprintf("%s.%d", out, os.Getpid())
	if err := os.Symlink("evictd", beside); err != nil {
		return err
	}
	return os.Rename(beside, out)
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
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, programs[name])
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
