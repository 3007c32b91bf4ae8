package walk_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/evictd/evictd/plugins/internal/walk"
)

func TestAFileThatGrowsDoesNotHoldUpTheWalk(t *testing.T) {
	root := t.TempDir()
	for i := range 50 {
		mkdir(t, root+"/"+strconv.Itoa(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var growing sync.WaitGroup
	growing.Go(func() {
		f, err := os.Create(root + "/log")
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for n := 0; ctx.Err() == nil && n < 64<<20; n += 4096 {
			if _, err := f.Write(make([]byte, 4096)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 50 {
		if got := inSteps(t, root, walk.Options{MaxEntries: 20}); got.Inodes < 51 || got.Inodes > 52 {
			t.Errorf("%d inodes, want 52", got.Inodes)
		}
	}
	cancel()
	growing.Wait()
}

func TestRemovedWhileWalking(t *testing.T) {
	root := filepath.Join(t.TempDir(), "tree")
	for _, name := range []string{"", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/c/d/e", "/a/b/c/d/e/f", "/a/b/c/d/e/f/g"} {
		mkdir(t, root+name)
	}
	for steps := range 12 {
		t.Run("after "+strconv.Itoa(steps), func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "copy")
			must(t, exec.Command("cp", "-a", root, copied).Run())
			w := open(t, copied, walk.Options{MaxEntries: 1, MaxOpen: 4})
			for range steps {
				_, err := w.Continue(t.Context())
				must(t, err)
			}
			must(t, os.RemoveAll(copied))
			finish(t, w)
			if got, want := w.Usage().Inodes, int64(min(steps+1, 8)); got != want {
				t.Errorf("%d inodes, want the %d seen", got, want)
			}
		})
	}
}

// A directory that moves takes what is left in it along; the walk says so and
// counts the rest.
func TestMovedWhileWalking(t *testing.T) {
	for name, c := range map[string]struct {
		move string
		lost bool
	}{
		"whose parent is held open, near the root": {"deeper/", false},
		"whose parent is held open, far below":     {strings.Repeat("deeper/", 20), false},
		"whose parent is closed":                   {strings.Repeat("deeper/", 10), true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			chain(t, dir+"/tree", 20)
			w := open(t, dir+"/tree", walk.Options{MaxOpen: 4, MaxEntries: 1})
			for range 40 {
				_, err := w.Continue(t.Context())
				must(t, err)
			}
			must(t, os.WriteFile(dir+"/tree/late", nil, 0o600))
			must(t, os.Rename(filepath.Join(dir, "tree", c.move), dir+"/moved"))
			var done bool
			var err error
			for !done {
				if done, err = w.Continue(t.Context()); !done {
					must(t, err)
				}
			}
			if lost := err != nil && strings.Contains(err.Error(), "moved"); lost != c.lost || (err == nil) == c.lost {
				t.Errorf("got %v, want an error: %v", err, c.lost)
			}
			if got := w.Usage().Inodes; got < 22 || got > 42 {
				t.Errorf("%d inodes, want most of 41", got)
			}
		})
	}
}
