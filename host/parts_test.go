package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/eviction"
)

// The directories of a pod may outlive its volumes, as they do in a kubelet.
func TestAVictimIsCleanedUpWhenItsVolumesAreGone(t *testing.T) {
	dir := t.TempDir()
	victim := loop.Kill{Pod: pods.Pod{Row: eviction.Pod{UID: "uid-1"}}}
	volume := filepath.Join(dir, "uid-1", "volumes", "kubernetes.io~empty-dir", "data")
	k := criKiller{podsDir: dir}
	want := func(is bool) {
		t.Helper()
		if got, err := k.CleanedUp(t.Context(), victim); got != is || err != nil {
			t.Errorf("cleaned up: %v, %v, want %v", got, err, is)
		}
	}
	want(true) // it never had any
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	want(false)
	if err := os.Remove(volume); err != nil {
		t.Fatal(err)
	}
	want(true)

	ended, end := context.WithCancel(t.Context())
	end()
	if got, err := k.CleanedUp(ended, victim); got && err != nil {
		t.Errorf("cleaned up with an error: %v", err)
	}
}
