package plugindir

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/testos"
)

// What happens in the directory, and another one in its place, is seen long before the
// next look that is made anyway.
func TestChangesOfTheDirectoryAreSeen(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir, other := filepath.Join(above, "plugins"), filepath.Join(above, "other")
	for _, d := range []string{dir, other} {
		testos.Mkdir(t, d, 0o700)
	}
	w := NewWatch(dir, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	looks := make(chan struct{}, 100)
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx, func() { looks <- struct{}{} }) })
	defer running.Wait()
	defer cancel()
	write := func(path string) func() error {
		return func() error { return os.WriteFile(path, []byte("x"), 0o600) }
	}
	for _, step := range []struct {
		what string
		do   func() error
		seen bool
	}{
		{"a file", write(filepath.Join(dir, "a")), true},
		{"the same file again", write(filepath.Join(dir, "a")), true},
		{"a file that is no plugin", write(filepath.Join(dir, ".a")), false},
		{"a file beside the directory", write(filepath.Join(above, "b")), false},
		{"the directory moved", func() error { return os.Rename(dir, dir+".old") }, true},
		{"a file in what was the directory", write(filepath.Join(dir+".old", "c")), false},
		{"another directory in its place", func() error { return os.Rename(other, dir) }, true},
		{"a file in that", write(filepath.Join(dir, "d")), true},
		{"the directory removed", func() error { return os.RemoveAll(dir) }, true},
		{"and made again", func() error { return os.Mkdir(dir, 0o700) }, true},
		{"a file in what was made", write(filepath.Join(dir, "e")), true},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		within := slowRescan / 2
		if !step.seen {
			within = 2 * maxDebounce
		}
		select {
		case <-looks:
			if !step.seen {
				t.Errorf("%s: looked at, want it to be nothing", step.what)
			}
		case <-time.After(within):
			if step.seen {
				t.Errorf("%s: not seen within %s", step.what, within)
			}
		}
		for quiet := false; !quiet; { // several events of one step
			select {
			case <-looks:
			case <-time.After(3 * debounce):
				quiet = true
			}
		}
	}
}
