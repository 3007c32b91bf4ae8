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
	if out, err := exec.CommandContext(t.Context(), "go", "run", "-tags", "man", ".", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	page, err := os.ReadFile(filepath.Join(dir, "evictd-run.8"))
	if want := "such as memory.available<1Gi,nodefs.available<10%"; err != nil || !strings.Contains(string(page), want) {
		t.Errorf("%v, want %q in:\n%s", err, want, page)
	}
}
