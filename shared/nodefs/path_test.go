package nodefs

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/testos"
)

// A random tree with absolute, relative, looped and dangling links, and links that lead out of it, answers as in a chroot.
func TestPathsAnswerAsInAChroot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, NOTHING TESTED: chroot needs root")
	}
	names := []string{"a", "b", "c", "d"}
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	pick := func(most int) string {
		parts := make([]string, 1+random.IntN(most))
		for i := range parts {
			parts[i] = names[random.IntN(len(names))]
		}
		return strings.Join(parts, "/")
	}
	outer := t.TempDir()
	testos.WriteFile(t, filepath.Join(outer, "a"), "not of the node", 0o600)
	inChroot := chroots(t)
	read, found, linked := 0, 0, 0
	rounds := 100
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		rounds = 5000
	}
	for round := range rounds {
		root := filepath.Join(outer, "root")
		testos.MkdirAll(t, root, 0o755)
		within, err := os.OpenRoot(root) // the links that are there already lead out of it
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			at := pick(3)
			_ = within.MkdirAll(filepath.Dir(at), 0o755) // a file or a link may be there, as below
			switch random.IntN(4) {
			case 0:
				_ = within.WriteFile(at, []byte(strconv.Itoa(i)), 0o600)
			case 1:
				_ = within.Symlink("/"+pick(3), at)
			default:
				_ = within.Symlink(strings.Repeat("../", random.IntN(5))+pick(2), at)
			}
		}
		_ = within.Close()
		node := FS{Root: root}
		for range 20 {
			name := "/" + pick(4)
			want, errWant := inChroot(root, name)
			got, err := os.ReadFile(node.Path(name))
			if string(got) != string(want) || (err == nil) != (errWant == nil) {
				t.Fatalf("seed %d, round %d: %s has %q (%v) at %s, in a chroot %q (%v)", seed, round, name, got, err, node.Path(name), want, errWant)
			}
			if real := node.Real(name); err == nil && node.Path(name) != filepath.Join(root, real) {
				t.Fatalf("seed %d, round %d: %s is %s without links, and found at %s", seed, round, name, real, node.Path(name))
			} else if err == nil && real != name {
				linked++
			}
			if read++; err == nil {
				found++
			}
		}
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d reads, %d of files, %d of them by links", read, found, linked)
	if linked == 0 {
		t.Error("no file was read by a link")
	}
}

// chroots returns a function that reads a file with a directory as the root. It has a thread of its own, which ends with the test.
func chroots(t *testing.T) func(root, name string) ([]byte, error) {
	t.Helper()
	type answer struct {
		data []byte
		err  error
	}
	asked, answers := make(chan [2]string), make(chan answer)
	t.Cleanup(func() { close(asked) })
	go func() {
		runtime.LockOSThread() // which ends with this goroutine
		outside, err := os.Open("/")
		err = errors.Join(err, unix.Unshare(unix.CLONE_FS))
		for ask := range asked {
			var a answer
			if a.err = errors.Join(err, unix.Chroot(ask[0])); a.err == nil {
				a.data, a.err = os.ReadFile(ask[1])
				err = errors.Join(unix.Fchdir(int(outside.Fd())), unix.Chroot("."))
			}
			answers <- a
		}
		_ = outside.Close() // only read
	}()
	return func(root, name string) ([]byte, error) {
		asked <- [2]string{root, name}
		a := <-answers
		return a.data, a.err
	}
}
