package plugindir

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
)

// What happens in the directory, and another one in its place, is seen long before the
// next look that is made anyway.
func TestChangesOfTheDirectoryAreSeen(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir, other, elsewhere := filepath.Join(above, "plugins"), filepath.Join(above, "other"), filepath.Join(above, "elsewhere")
	for _, d := range []string{dir, other, elsewhere} {
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
		{"a link to nothing", func() error { return os.Symlink("../elsewhere/acme", filepath.Join(dir, "acme")) }, true},
		{"a file beside what it leads to", write(filepath.Join(elsewhere, "bar")), false},
		{"what the link leads to", write(filepath.Join(elsewhere, "acme")), true},
		{"and another one in its place", func() error { return os.Rename(filepath.Join(elsewhere, "bar"), filepath.Join(elsewhere, "acme")) }, true},
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
