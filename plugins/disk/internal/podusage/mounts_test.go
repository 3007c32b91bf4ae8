package podusage

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
)

const (
	procLine  = "36 24 0:22 / /proc rw - proc proc rw\n"
	plainLine = "40 24 8:1 /snapshots/9/fs / rw shared:1 - ext4 /dev/sda1 rw,upperdir=/not/an/overlay\n"
)

// overlayLine is a line of mountinfo about an overlay.
func overlayLine(minor int, point, upperDir string) string {
	return fmt.Sprintf("35 24 0:%d / %s rw,relatime master:1 - overlay overlay rw,lowerdir=/l/1:/l/2,upperdir=%s,workdir=/w,xino=off\n", minor, point, upperDir)
}

func TestReadOverlays(t *testing.T) {
	n := newNode(t)
	n.text("/proc/1/mountinfo", procLine+plainLine+overlayLine(44, "/run/a/rootfs", "/var/lib/s/42/fs")+overlayLine(45, "/run/b/rootfs", `/a\040b\054c\134`)+
		"35 24 0:46 / / ro - overlay overlay ro,lowerdir=/l/1:/l/2\n"+overlayLine(47, "/relative", "42/fs")+
		"35 24 0:48 / / rw shared:1 master:2 - overlay o rw,upperdir=/optional\n"+"35 24 0:49 / /")
	n.text("/proc/self/mountinfo", overlayLine(50, "/run/c/rootfs", "/private"))
	got := newNodeMounts(nodefs.FS{Root: n.root}).overlays
	want := map[uint32]string{44: "/var/lib/s/42/fs", 45: `/a b,c\`, 46: "", 48: "", 50: "/private"} // 46 and 48 are the node's root
	if len(got) != len(want) {
		t.Errorf("%d overlays, want %d: %v", len(got), len(want), got)
	}
	for minor, dir := range want {
		if got[unix.Mkdev(0, minor)].upper != dir {
			t.Errorf("device 0:%d is written to %q, want %q", minor, got[unix.Mkdev(0, minor)].upper, dir)
		}
	}
}

func TestReadRootDevice(t *testing.T) {
	n := newNode(t)
	for name, c := range map[string]struct {
		mounts string
		want   uint64
	}{
		"containerd's":              {overlayLine(44, "/", "/u") + procLine, unix.Mkdev(0, 44)},
		"the last one is on top":    {overlayLine(44, "/", "/below") + overlayLine(45, "/", "/above"), unix.Mkdev(0, 45)},
		"no overlay":                {plainLine + procLine, unix.Mkdev(8, 1)},
		"an overlay on another dir": {overlayLine(44, "/mnt", "/u"), 0},
		"nothing":                   {"", 0},
		"half a line":               {"35 24 0:44 / /", 0},
		"half a filesystem":         {"35 24 0:44 / / rw - overlay", 0},
		"no device":                 {strings.Replace(plainLine, "8:1", "8", 1), 0},
	} {
		n.text("/proc/7/mountinfo", c.mounts)
		if got := readRootDevice(n.path("/proc/7/mountinfo")); got != c.want {
			t.Errorf("%s: device %#x, want %#x", name, got, c.want)
		}
	}
}

func FuzzParseMount(f *testing.F) {
	for _, seed := range []string{procLine, overlayLine(44, "/", `/a\040b`), plainLine, " - overlay ", "a b c d / - overlay o upperdir=/\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		m, ok := nodefs.ParseMount(line)
		if !ok {
			return
		}
		found := make(overlays)
		found.add(m, false)
		for _, of := range found {
			if !path.IsAbs(of.upper) {
				t.Errorf("%q is not absolute", of.upper)
			}
		}
	})
}
