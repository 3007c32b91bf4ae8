package filesystem

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/nodefs"
)

// cAdvisor has no device for /proc, as it has none for fuse or 9p.
func TestAFilesystemThatCAdvisorDoesNotKnowIsIdentifiedByItsNumber(t *testing.T) {
	dev, err := nodefs.FS{}.Device("/proc")
	if err != nil {
		t.Fatal(err)
	}
	proc := locate("/proc", dev)
	if proc.mountpoint != "/proc" || !strings.HasPrefix(proc.device.Device, "device ") || !proc.holds("/proc", dev) {
		t.Errorf("located at %+v, want the directory itself", proc)
	}
	if proc.holds("/proc", dev+1) {
		t.Error("a directory on another device is held to be where it was")
	}
	dir := t.TempDir()
	if dev, err = (nodefs.FS{}).Device(dir); err != nil {
		t.Fatal(err)
	}
	if other := locate(dir, dev); other.same(&proc) || !other.same(&other) {
		t.Errorf("%+v and %+v are told apart wrongly", other, proc)
	}
}

func TestAMountThatIsGoneIsLookedForAgain(t *testing.T) {
	dir := t.TempDir()
	dev, err := nodefs.FS{}.Device(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, mountpoint := range map[string]string{"it does not exist": dir + "/gone", "another one is there": "/proc"} {
		if l := (location{dev: dev, mountpoint: mountpoint}); l.holds(dir, dev) {
			t.Errorf("%s: %+v is held to be right", name, l)
		}
	}
}
