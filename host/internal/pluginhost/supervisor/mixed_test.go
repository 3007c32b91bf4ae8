package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// A program that has plugins inside ended when the vendors' directory was not there yet,
// and did not look at it at all when it had plugins of its own.
func TestPluginsOfADirectoryBesideThoseOfThisProcess(t *testing.T) {
	t.Parallel()
	filled := install(t, "vendor", "good")
	dir := filepath.Join(privateDir(t), "plugins")
	h := insideHost(t, Options{Dir: dir, DirOptional: true, SocketRoot: privateDir(t)}, map[string]eviction.Plugin{"good": inside{rank: inOrder}.plugin()})
	if p := h.plugin("good"); p.State != Running || p.PID != 0 || p.Path != "" {
		t.Fatalf("without a directory: %+v", p)
	}

	testos.Rename(t, filled, dir)
	eventually(t, "the vendor's plugin serves", func() bool { p := h.plugin("vendor"); return p.State == Running && p.PID != 0 })
	eventually(t, "a file takes the place of the plugin inside", func() bool { return h.plugin("good").PID != 0 })
	if p := h.plugin("good"); p.Swaps != 1 || p.Path != filepath.Join(dir, "good") {
		t.Errorf("taken over: %+v", p)
	}

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin inside is back", func() bool { p := h.plugin("good"); return p.State == Running && p.PID == 0 })
	eventually(t, "the vendor's plugin is gone", func() bool { return h.plugin("vendor").State == "" })
}

// A directory into which others can put plugins is not used, whoever has plugins of its own.
func TestADirectoryOfOthersIsRefusedBesideThoseOfThisProcess(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	testos.Chmod(t, dir, 0o777)
	if _, err := New(Options{Inside: map[string]eviction.Plugin{"good": inside{rank: inOrder}.plugin()}, Dir: dir, SocketRoot: privateDir(t)}); err == nil {
		t.Error("it is used")
	}
}

// A plugin of this process that refused its configuration was reported, and then nothing
// happened any more while a directory was watched: no pod was evicted, nothing ended.
func TestAPluginOfThisProcessThatRefusesEndsTheSupervisorBesideADirectory(t *testing.T) {
	t.Parallel()
	refuses := inside{rank: inOrder, configure: func(eviction.ConfigureRequest) error { return errors.New("config.colour: unknown field") }}
	s, err := New(Options{
		Inside: map[string]eviction.Plugin{"memory": refuses.plugin()},
		Dir:    install(t, "good"), SocketRoot: privateDir(t), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	began := time.Now()
	if err := s.Run(ctx); err == nil || !strings.Contains(err.Error(), "config.colour: unknown field") {
		t.Errorf("%v after %s, want what was refused", err, time.Since(began))
	}
}
