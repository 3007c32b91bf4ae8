package nodefs

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMount(t *testing.T) {
	for line, want := range map[string]Mount{
		"33 30 0:29 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n": {unix.Mkdev(0, 29), "/", "/sys/fs/cgroup/pids", "cgroup", "rw,pids"},
		`40 24 8:1 /a\040b /mnt\134x rw - ext4 /dev/sda1 rw`:                     {unix.Mkdev(8, 1), "/a b", `/mnt\x`, "ext4", "rw"},
		`44 24 0:44 / / rw a:1 b:2 - overlay overlay rw,upperdir=/u\054v`:        {unix.Mkdev(0, 44), "/", "/", "overlay", `rw,upperdir=/u\054v`},
	} {
		if got, ok := ParseMount(line); !ok || got != want {
			t.Errorf("%q: %+v, %v, want %+v", line, got, ok, want)
		}
	}
	for _, line := range []string{"", "40 24 8:1 / / rw", "40 24 8 / / rw - ext4 /dev/sda1 rw", "40 24 8:1 / / rw - ext4"} {
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
