package walk_test

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/internal/walk"
)

// A random tree is what du and the standard library say that it is, in one go
// and in steps of any size, with few descriptors and with many.
func TestRandomTreesAgreeWithDu(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			root := t.TempDir()
			randomTree(t, random, root, 300)
			settle(t, root)
			want := reference(t, root)
			if got := du(t, root); got != want {
				t.Fatalf("du says %+v, the reference %+v", got, want)
			}
			if got := inSteps(t, root, walk.Options{}); got != want {
				t.Errorf("in one go: %+v, want %+v", got, want)
			}
			for range 3 {
				o := walk.Options{MaxEntries: 1 + random.IntN(40), MaxOpen: random.IntN(8)}
				if got := inSteps(t, root, o); got != want {
					t.Errorf("with %+v: %+v, want %+v", o, got, want)
				}
			}
		})
	}
}

// randomTree makes about n entries of all kinds below root.
func randomTree(t *testing.T, random *rand.Rand, root string, n int) {
	t.Helper()
	dirs, files := []string{root}, []string(nil)
	for i := range n {
		// The latest directory often, so that trees get deep as well as wide.
		dir := dirs[random.IntN(len(dirs))]
		if random.IntN(3) == 0 {
			dir = dirs[len(dirs)-1]
		}
		name := filepath.Join(dir, strconv.Itoa(i)+strings.Repeat("x", random.IntN(60)))
		switch random.IntN(10) {
		case 0, 1, 2:
			mkdir(t, name)
			dirs = append(dirs, name)
		case 3:
			must(t, os.Symlink(dirs[random.IntN(len(dirs))], name))
		case 4:
			must(t, os.Symlink(strings.Repeat("long", 50), name)) // too long for the inode
		case 5:
			must(t, syscall.Mkfifo(name, 0o600))
		case 6:
			if len(files) > 0 {
				must(t, os.Link(files[random.IntN(len(files))], name))
			}
		case 7:
			must(t, os.WriteFile(name, nil, 0o600))
			must(t, os.Truncate(name, random.Int64N(1<<40)))
		default:
			write(t, name, random.IntN(40_000))
			files = append(files, name)
		}
	}
}

// reference counts as the package promises, in the plain way.
func reference(t *testing.T, root string) (u walk.Usage) {
	t.Helper()
	var device uint64
	seen := map[uint64]bool{}
	must(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		st := i.Sys().(*syscall.Stat_t)
		switch {
		case name == root:
			device = st.Dev
		case st.Dev != device && d.IsDir():
			return filepath.SkipDir
		case st.Dev != device || seen[st.Ino]:
			return nil
		}
		seen[st.Ino] = true
		u.Inodes++
		u.Bytes += st.Blocks * 512
		return nil
	}))
	return u
}

// du asks the program.
func du(t *testing.T, root string) walk.Usage {
	t.Helper()
	ask := func(arg string) int64 {
		out, err := exec.Command("du", "-sx", arg, root).Output()
		must(t, err)
		n, err := strconv.ParseInt(string(out[:bytes.IndexByte(out, '\t')]), 10, 64)
		must(t, err)
		return n
	}
	return walk.Usage{Bytes: ask("--block-size=1"), Inodes: ask("--inodes")}
}

// inSteps walks root to the end.
func inSteps(t *testing.T, root string, o walk.Options) walk.Usage {
	t.Helper()
	w := open(t, root, o)
	finish(t, w)
	return w.Usage()
}

// open begins a walk with the bounds of o, and wide ones for what it does not say.
func open(t *testing.T, root string, o walk.Options) *walk.Walk {
	t.Helper()
	w, err := walk.Open(root, wide(o))
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()) })
	return w
}

func wide(o walk.Options) walk.Options {
	o.MaxOpen, o.MaxLinks = cmp.Or(o.MaxOpen, 16), cmp.Or(o.MaxLinks, 1<<18)
	return o
}

// finish goes on to the end, which must be without errors.
func finish(t *testing.T, w *walk.Walk) {
	t.Helper()
	before := w.Usage()
	for {
		done, err := w.Continue(t.Context())
		must(t, err)
		now := w.Usage()
		if now.Bytes < before.Bytes || now.Inodes < before.Inodes {
			t.Fatalf("the usage fell from %+v to %+v", before, now)
		}
		if done {
			return
		}
		before = now
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mkdir(t testing.TB, name string) {
	t.Helper()
	must(t, os.Mkdir(name, 0o755))
}

// write makes a file of n bytes.
func write(t testing.TB, name string, n int) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	_, err = f.Write(bytes.Repeat([]byte("evictd."), n/7+1)[:n])
	must(t, errors.Join(err, f.Close()))
}

// settle waits until the filesystem has allocated what was written, so that
// blocks do not change between two looks.
func settle(t testing.TB, name string) {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	must(t, errors.Join(unix.Syncfs(int(f.Fd())), f.Close()))
}

// inMemory is a directory on a filesystem that makes files fast, if there is one.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "evictd-walk-")
	if err != nil {
		return t.TempDir()
	}
	// The standard library would open all levels of a deep tree.
	t.Cleanup(func() { must(t, exec.Command("rm", "-rf", dir).Run()) })
	return dir
}
