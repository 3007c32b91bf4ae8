package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/harness/evictd"
)

// RunDir makes a directory with a path that is short enough for sockets.
func RunDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd-run-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// PluginDir makes a plugin directory with the named programs, by default the memory plugin.
func PluginDir(t testing.TB, names ...string) string {
	t.Helper()
	if len(names) == 0 {
		names = []string{"memory"}
	}
	dir := t.TempDir()
	for _, name := range names {
		Install(t, Build(t, name), filepath.Join(dir, name))
	}
	return dir
}

// Install copies an executable.
func Install(t testing.TB, from, to string) {
	t.Helper()
	if err := evictd.Install(from, to); err != nil {
		t.Fatal(err)
	}
}

// Alive reports whether a process exists and is no zombie.
func Alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
