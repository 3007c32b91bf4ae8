package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A page said "hard thresholds, such as memory.available,nodefs.available%".
func TestManPagesHaveThresholdsWhole(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "-tags", "man,grpcnotrace", ".", dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build, so that little is compiled anew
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	page, err := os.ReadFile(filepath.Join(dir, "evictctl-check.8"))
	if want := "such as memory.available<1Gi,nodefs.available<10%"; err != nil || !strings.Contains(string(page), want) {
		t.Errorf("%v, want %q in:\n%s", err, want, page)
	}
}
