package plugindir

import (
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// On a slow or full disk a plugin of the host missed the limit of its start, as each of its 190 page
// faults waited for a request, one after the other.
func TestProgramIsReadAheadOfItsStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plugin")
	posing(t, path, "exits")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if n := residentBytes(t, file); n > 1<<20 {
		t.Skipf("%d bytes stay in memory: the filesystem has no disk", n)
	}
	looked, err := Identify(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := TryOpen(path, looked, ""); err != nil {
		t.Fatal(err)
	}
	const want = 3 << 20 // of the first 4 MiB
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for began := time.Now(); residentBytes(t, file) < want; <-look.C {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%d bytes are in memory, want at least %d", residentBytes(t, file), want)
		}
	}
}

// residentBytes returns how much of the first 4 MiB of a file is in memory.
func residentBytes(t *testing.T, file *os.File) (n int) {
	t.Helper()
	mapped, err := unix.Mmap(int(file.Fd()), 0, 4<<20, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mapped) }()
	pages := make([]byte, len(mapped)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(len(mapped)), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		n += int(p&1) * os.Getpagesize()
	}
	return n
}
