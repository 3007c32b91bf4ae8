package uml

import (
	"bytes"
	_ "embed"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

//go:embed src/xstate.c
var xstateSource []byte

// buildXstate compiles src/xstate.c into dir and returns the library, which must be preloaded
// only into linux.uml.
func buildXstate(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	source, library := filepath.Join(dir, "xstate.c"), filepath.Join(dir, "xstate.so")
	testos.WriteFile(t, source, xstateSource, 0o600)
	compile(t, append(flags, "-shared", "-fPIC", "-o", library, source)...)
	return library
}

func compile(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "gcc", append([]string{"-std=gnu11", "-O2", "-Wall", "-Werror", "-pipe"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, bytes.TrimSpace(out))
	}
}
