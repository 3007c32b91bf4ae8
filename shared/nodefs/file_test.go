package nodefs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestReadGrowsItsBuffer(t *testing.T) {
	root := t.TempDir()
	want := strings.Repeat("some_key 12345\n", 4000) // 60 kB
	write(t, root, "proc/large", want)
	file, err := FS{Root: root}.Open("/proc/large")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var b Buffer
	for range 2 {
		if got, err := file.Read(&b); err != nil || string(got) != want {
			t.Fatalf("read %d bytes, %v, want all %d", len(got), err, len(want))
		}
	}
}

func TestReadRefusesAFileWithoutEnd(t *testing.T) {
	file, err := FS{}.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Read(&Buffer{}); err == nil || !strings.Contains(err.Error(), "/dev/zero: larger than 262144 bytes") {
		t.Errorf("error = %v, want one that says the file is too large", err)
	}
}

func TestOpenOfNothingIsGone(t *testing.T) {
	_, err := FS{Root: t.TempDir()}.Open("/sys/nothing")
	if !errors.Is(err, ErrGone) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/sys/nothing") {
		t.Errorf("error = %v, want gone, not exist, with the path", err)
	}
}

func TestPathStaysBelowTheRoot(t *testing.T) {
	for _, c := range []struct{ root, name, want string }{
		{"", "/proc/meminfo", "/proc/meminfo"},
		{"/", "/proc/meminfo", "/proc/meminfo"},
		{"/host", "/proc/meminfo", "/host/proc/meminfo"},
		{"/host/", "proc", "/host/proc"},
	} {
		if got := (FS{Root: c.root}).Path(c.name); got != c.want {
			t.Errorf("root %q: %q is %q, want %q", c.root, c.name, got, c.want)
		}
	}
}

func TestCloseDuringReads(t *testing.T) {
	root := t.TempDir()
	write(t, root, "x", "12\n")
	file, err := FS{Root: root}.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	started := make(chan struct{}, 4)
	for range 4 {
		readers.Go(func() {
			var b Buffer
			started <- struct{}{}
			for {
				content, err := file.Read(&b)
				if errors.Is(err, ErrGone) {
					return
				}
				if err != nil || string(content) != "12\n" {
					t.Errorf("read %q, %v", content, err)
					return
				}
			}
		})
	}
	for range 4 {
		<-started
	}
	file.Close()
	readers.Wait()
	file.Close()
	if _, err := os.Stat(filepath.Join(root, "x")); err != nil {
		t.Error(err)
	}
}
