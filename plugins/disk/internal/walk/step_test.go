package walk

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Not every filesystem says what its entries are.
func TestKindsThatTheFilesystemDoesNotTell(t *testing.T) {
	root := t.TempDir()
	err := errors.Join(os.MkdirAll(root+"/a/b", 0o755), os.WriteFile(root+"/a/file", nil, 0o600), os.Symlink("a", root+"/link"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(root, Options{})
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
