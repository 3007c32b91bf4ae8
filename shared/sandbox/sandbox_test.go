package sandbox

import (
	"os"
	"testing"
)

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	if os.Geteuid() != 0 {
		t.Fatal("EVICTD_TEST_ROOT is set and this is not root")
	}
}

// newRoot is of sandboxes in a directory that leave nothing.
func newRoot(t *testing.T, dir string) *Root {
	return NewRoot(dir, Tell{
		Unlimited: func(string, error) {},
		Left:      func(_ string, err error) { t.Error(err) },
	})
}

// Whoever waits for the handshake of a process that has just ended got the error that the
// directory of its socket was missing, and not how the process had ended.
func TestTheSocketDirectoryOutlivesTheProcess(t *testing.T) {
	root := t.TempDir()
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newRoot(t, root).Prepare("marks", 0, Program{File: file}, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := s.CheckDir(); err != nil {
		t.Error(err)
	}
	s.RemoveDir()
	s.root.Close()
	if left, _ := os.ReadDir(root); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
