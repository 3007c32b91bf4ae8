package walk

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/testos"
)

// Not every filesystem says what its entries are.
func TestKindsThatTheFilesystemDoesNotTell(t *testing.T) {
	root := t.TempDir()
	err := errors.Join(os.MkdirAll(root+"/a/b", 0o755), os.WriteFile(root+"/a/file", nil, 0o600), os.Symlink("a", root+"/link"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(root, Options{MaxOpen: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for len(w.stack.levels) > 0 {
		e, ok, err := w.stack.next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			if _, err := w.stack.leave(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		e.kind = unix.DT_UNKNOWN
		if err := w.look(e); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Usage().Inodes; got != 5 {
		t.Errorf("%d inodes, want 5", got)
	}
}

// Not every filesystem has "." first. Where the first entry cannot be looked at for
// want of descriptors, the block is given up before anything of it was taken.
func TestAWalkThatStopsAtTheFirstEntryOfADirectoryComesBackToIt(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		testos.WriteFile(t, dir+"/"+name, "", 0o600)
	}
	s := stack{maxOpen: 4}
	var st unix.Statx_t
	if err := s.openRoot(dir, &st); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	l := s.top()
	if more, err := l.read(); !more || err != nil {
		t.Fatal(more, err)
	}
	s.park()
	names := 0
	for {
		e, more, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		names++
		s.take(e)
	}
	if names != 3 {
		t.Errorf("%d names after the shortage, want 3", names)
	}
}
