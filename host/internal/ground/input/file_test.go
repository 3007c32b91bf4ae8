package input

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/testos"
)

func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	testos.WriteFile(t, in("file"), "content", 0o600)
	if err := unix.Mkfifo(in("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"link": "file", "kmsg": "/proc/kmsg", "status": "/proc/self/status", "uevent": "/sys/kernel/uevent_seqnum", "lost": "nowhere", "loop": "loop", "zero": "/dev/zero",
	} {
		testos.Symlink(t, target, in(name))
	}
	for _, name := range []string{"file", "link"} {
		if got, err := ReadFile(in(name), 7); err != nil || string(got) != "content" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	const kernel = "is a file of the kernel's, want a regular file"
	for name, want := range map[string]string{
		"pipe": "is a pipe, want a regular file", "zero": "is a device, want a regular file", ".": "is a directory, want a regular file",
		"kmsg": kernel, "status": kernel, "uevent": kernel, "lost": "no such file or directory", "loop": "too many levels of symbolic links",
	} {
		if got, err := ReadFile(in(name), 1<<20); err == nil || err.Error() != want {
			t.Errorf("%s: %.20q, %v, want %s", name, got, err, want)
		}
	}
	if _, err := ReadFile(in("file"), 6); err == nil || err.Error() != "is larger than 6 bytes" {
		t.Errorf("seven bytes where six may be: %v", err)
	}
	if err := os.Truncate(in("file"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(in("file"), 1<<20); err == nil || err.Error() != "is larger than 1 MiB" {
		t.Errorf("a terabyte: %v", err)
	}
	if _, err := ReadFile(in("lost"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want one that says that there is nothing", err)
	}
}
