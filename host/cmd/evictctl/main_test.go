package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

// What this machine may have of evictd's is no part of a test.
func TestMain(m *testing.M) {
	program.OwnFile = "/nonexistent"
	os.Exit(m.Run())
}

// Without --config check, evictions and the others went by defaults, beside a file that said otherwise.
func TestWithoutConfigTheFileOfTheDaemonCounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "evictd.yaml")
	program.OwnFile = file
	t.Cleanup(func() { program.OwnFile = "/nonexistent" })
	commands := []string{"check", "evictions", "explain any", "explain --now", "observe", "rank", "plugins", "protect-node", "uninstall-node"}
	said := func(args string) string { return evictctl(t, strings.Fields(args)...).Errors }
	for _, name := range commands {
		if got := said(name); strings.Contains(got, file) {
			t.Errorf("evictctl %s: %s, where there is no file", name, got)
		}
	}
	testos.WriteFile(t, file, "no-field: 1\n", 0o600)
	for _, name := range commands {
		if got := said(name); !strings.Contains(got, file+`: "no-field": unknown field`) {
			t.Errorf("evictctl %s: %q, want what is wrong with %s", name, got, file)
		}
	}
	for _, args := range []string{"check --config=", "version", "plugins verify --config=", "plugins verify /nonexistent/plugin", "evictions --state-dir " + filepath.Dir(file)} {
		if got := said(args); strings.Contains(got, file) {
			t.Errorf("evictctl %s: %q, want the file left alone", args, got)
		}
	}
}
