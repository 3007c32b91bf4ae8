package nodefs

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMount(t *testing.T) {
	for line, want := range map[string]Mount{
		"33 30 0:29 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n": {unix.Mkdev(0, 29), "/", "/sys/fs/cgroup/pids", "cgroup", "cgroup", "rw,pids", 33, 30, false},
		"41 24 0:50 / /empty rw,relatime - tmpfs  rw,size=64k\n":                 {unix.Mkdev(0, 50), "/", "/empty", "tmpfs", "", "rw,size=64k", 41, 24, false},
		"42 24 0:51 / /space rw - fuse.x a b rw":                                 {unix.Mkdev(0, 51), "/", "/space", "fuse.x", "a", "rw", 42, 24, false},
		`40 24 8:1 /a\040b /mnt\134x ro,noatime - ext4 /dev/sda1 rw`:             {unix.Mkdev(8, 1), "/a b", `/mnt\x`, "ext4", "/dev/sda1", "rw", 40, 24, true},
		`44 24 0:44 / / rw a:1 b:2 - overlay overlay rw,upperdir=/u\054v`:        {unix.Mkdev(0, 44), "/", "/", "overlay", "overlay", `rw,upperdir=/u\054v`, 44, 24, false},
	} {
		if got, ok := ParseMount(line); !ok || got != want {
			t.Errorf("%q: %+v, %v, want %+v", line, got, ok, want)
		}
	}
	for _, line := range []string{"", "x 24 8:1 / / rw - ext4 /dev/sda1 rw", "40 y 8:1 / / rw - ext4 /dev/sda1 rw", "40 24 8:1 / / rw", "40 24 8 / / rw - ext4 /dev/sda1 rw", "40 24 8:1 / / rw - ext4"} {
		if got, ok := ParseMount(line); ok {
			t.Errorf("%q: %+v, want it refused", line, got)
		}
	}
	// A scanner with a usual limit has given up by then, and on all lines that follow.
	layers := "lowerdir=" + strings.Repeat("/var/lib/layers/fs:", 10_000)
	if m, ok := ParseMount("44 24 0:44 / / rw - overlay overlay " + layers); !ok || m.Options != layers {
		t.Errorf("a line of %d bytes: %v", len(layers), ok)
	}
}

// After an error ext4 of Linux 6.15 and later says ro neither in statfs nor among the usual options. A
// container that sees the node's root read-only sees no read-only filesystem.
func TestAFilesystemThatTakesNoWritesIsReadOnly(t *testing.T) {
	for line, want := range map[string]bool{
		"40 24 8:1 / /data rw,relatime - ext4 /dev/sda1 rw":                                   false,
		"40 24 8:1 / /host ro,relatime - ext4 /dev/sda1 rw,errors=remount-ro":                 false,
		"40 24 8:1 / /data rw,relatime - ext4 /dev/sda1 ro,errors=remount-ro":                 true,
		"40 24 8:1 / /data rw,relatime - ext4 /dev/sda1 rw,errors=remount-ro,emergency_ro":    true,
		"40 24 0:50 / /nfs rw - nfs4 server:/ro ro,vers=4.2":                                  true,
		`44 24 0:44 / / rw - overlay overlay rw,lowerdir=/a\054ro:/b,upperdir=/ro,workdir=/w`: false,
	} {
		if m, ok := ParseMount(line); !ok || m.ReadOnly() != want {
			t.Errorf("%q: %t, want %t", line, m.ReadOnly(), want)
		}
	}
}

func TestTheMountOfADirectory(t *testing.T) {
	m, err := FS{Root: "/"}.Mount("/proc/self")
	if err != nil || m.Kind != "proc" || m.Root != "/" || m.Point != "/proc" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := (FS{Root: t.TempDir()}).Mount("/gone"); !errors.Is(err, ErrGone) {
		t.Errorf("%v of a directory that is not there", err)
	}
}
