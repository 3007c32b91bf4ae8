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

// Summary returns the field summary of a configuration: a kubeconfig for server, and the layout shared.
func Summary(t testing.TB, server string) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubelet.kubeconfig")
	text := fmt.Sprintf("clusters: [{name: a, cluster: {server: %q}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n", server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"kubeconfig": file, "layout": "shared"}
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
