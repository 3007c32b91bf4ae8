package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/cadvisor/lib/fs"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// mounted is a filesystem made for a test.
type mounted struct {
	name string
	dir  string
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// mountDisk makes a filesystem in a sparse file and mounts it over a loop device.
func mountDisk(t *testing.T, mib int64, mkfs string, args ...string) mounted {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk.img")
	testos.WriteFile(t, image, "", 0o600)
	if err := os.Truncate(image, mib<<20); err != nil {
		t.Fatal(err)
	}
	run(t, mkfs, append(args, image)...)
	m := mounted{name: mkfs, dir: t.TempDir()}
	run(t, "mount", "-o", "loop", image, m.dir)
	m.unmountLater(t)
	return m
}

func mountTmpfs(t *testing.T) mounted {
	t.Helper()
	m := mounted{name: "tmpfs", dir: t.TempDir()}
	if err := unix.Mount("tmpfs", m.dir, "tmpfs", 0, "size=8m,nr_inodes=777"); err != nil {
		t.Fatal(err)
	}
	m.unmountLater(t)
	return m
}

func bind(t *testing.T, m mounted) mounted {
	t.Helper()
	b := mounted{name: m.name + ", bound", dir: t.TempDir()}
	if err := unix.Mount(m.dir, b.dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	b.unmountLater(t)
	return b
}

func (m mounted) unmountLater(t *testing.T) {
	t.Cleanup(func() {
		if err := unix.Unmount(m.dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", m.dir, err)
		}
	})
}

func (m mounted) sub(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(m.dir, name)
	testos.MkdirAll(t, dir, 0o755)
	return dir
}

// rest waits until all that was written has its blocks.
func (m mounted) rest(t *testing.T) {
	t.Helper()
	dir, err := os.Open(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		t.Fatal(err)
	}
}

func onMounts(t *testing.T, kubelet, images, containers string) *Filesystems {
	t.Helper()
	return open(t, eviction.NodeFacts{RootDir: "/", KubeletRootDir: kubelet}, imagesFunc(
		func(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
			return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: at(images), ContainerFilesystems: at(containers)}, nil
		}))
}

// cadvisors returns the figures of a directory's filesystem as cAdvisor's own
// manager looks them up.
func cadvisors(t *testing.T, dir string) fs.Fs {
	t.Helper()
	mounts, err := fs.NewFsInfo(fs.Context{})
	if err != nil {
		t.Fatal(err)
	}
	device, err := mounts.GetDirFsDevice(dir)
	if err != nil {
		t.Fatal(err)
	}
	mountpoint, err := mounts.GetMountpointForDevice(device.Device)
	if err != nil {
		t.Fatal(err)
	}
	all, err := mounts.GetFsInfoForPath(map[string]struct{}{mountpoint: {}})
	if err != nil || len(all) != 1 {
		t.Fatalf("cAdvisor has %d filesystems at %s: %v", len(all), mountpoint, err)
	}
	return all[0]
}

func TestFiguresAreCAdvisors(t *testing.T) {
	needsRoot(t)
	for _, m := range []mounted{
		mountDisk(t, 64, "mkfs.ext4", "-q", "-m", "5"),
		mountDisk(t, 320, "mkfs.xfs", "-q", "-i", "maxpct=1"),
		mountTmpfs(t),
		bind(t, mountDisk(t, 32, "mkfs.ext4", "-q", "-m", "0")),
	} {
		t.Run(m.name, func(t *testing.T) {
			kubelet := m.sub(t, "kubelet")
			for i := range 10 {
				testos.WriteFile(t, filepath.Join(kubelet, fmt.Sprint(i)), make([]byte, 100_000), 0o600)
			}
			m.rest(t)
			want := cadvisors(t, kubelet)
			got, _ := observe(t, onMounts(t, kubelet, kubelet, kubelet))
			for _, c := range []struct {
				signal              eviction.Signal
				available, capacity uint64
			}{
				{eviction.NodeFsAvailable, want.Available, want.Capacity},
				{eviction.ImageFsAvailable, want.Available, want.Capacity},
				{eviction.NodeFsInodesFree, *want.InodesFree, *want.Inodes},
				{eviction.ContainerFsInodesFree, *want.InodesFree, *want.Inodes},
			} {
				o := got[c.signal]
				t.Logf("%s: %d of %d, cAdvisor %d of %d, %+v", c.signal, o.Available, o.Capacity, c.available, c.capacity, o.Components)
				if o.State != eviction.Observed || o.Available != int64(c.available) || o.Capacity != int64(c.capacity) {
					t.Errorf("%s: %+v, want %d of %d", c.signal, o, c.available, c.capacity)
				}
			}
		})
	}
}

func TestLayoutsOfRealDisks(t *testing.T) {
	needsRoot(t)
	ext4, xfs, tmpfs := mountDisk(t, 32, "mkfs.ext4", "-q"), mountDisk(t, 320, "mkfs.xfs", "-q"), mountTmpfs(t)
	again := bind(t, tmpfs)
	for name, c := range map[string]struct {
		kubelet, images, containers mounted
		want                        eviction.Layout
	}{
		"all on ext4":              {ext4, ext4, ext4, eviction.LayoutShared},
		"the runtime on xfs":       {ext4, xfs, xfs, eviction.LayoutImageFs},
		"images on xfs":            {ext4, xfs, ext4, eviction.LayoutContainerFs},
		"one tmpfs, mounted twice": {tmpfs, again, tmpfs, eviction.LayoutShared},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 { // cAdvisor picks one of two mounts of a tmpfs at random
				f := onMounts(t, c.kubelet.sub(t, "kubelet"), c.images.sub(t, "images"), c.containers.sub(t, "layers"))
				if _, report := observe(t, f); f.Layout() != c.want {
					t.Errorf("layout %v, %+v, want %v", f.Layout(), report, c.want)
				}
			}
		})
	}
}

// A disk that is mounted or taken away below the runtime is found out in the next
// pass, without asking the runtime.
func TestADiskMountedLaterIsFound(t *testing.T) {
	needsRoot(t)
	base := mountDisk(t, 32, "mkfs.ext4", "-q")
	images := base.sub(t, "images")
	f := onMounts(t, base.sub(t, "kubelet"), images, images)
	observe(t, f)
	if f.Layout() != eviction.LayoutShared {
		t.Fatalf("layout %v, want shared", f.Layout())
	}
	if err := unix.Mount("tmpfs", images, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatal(err)
	}
	got, _ := observe(t, f)
	if o := got[eviction.ImageFsAvailable]; f.Layout() != eviction.LayoutImageFs || o.Capacity != 4<<20 {
		t.Errorf("layout %v, %+v, want images on a disk of 4 MiB", f.Layout(), o)
	}
	if err := unix.Unmount(images, 0); err != nil {
		t.Fatal(err)
	}
	if observe(t, f); f.Layout() != eviction.LayoutShared {
		t.Errorf("layout %v after it has gone, want shared", f.Layout())
	}
}

func TestAFullDiskIsObserved(t *testing.T) {
	needsRoot(t)
	m := mountDisk(t, 16, "mkfs.ext4", "-q", "-m", "0", "-N", "64")
	kubelet := m.sub(t, "kubelet")
	f := onMounts(t, kubelet, kubelet, kubelet)
	for i := 0; ; i++ {
		err := os.WriteFile(filepath.Join(kubelet, fmt.Sprint(i)), []byte("x"), 0o600)
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.OpenFile(filepath.Join(kubelet, "0"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 512); ; {
		if _, err := file.Write(block); errors.Is(err, unix.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	got, report := observe(t, f)
	for _, s := range []eviction.Signal{eviction.NodeFsAvailable, eviction.NodeFsInodesFree} {
		if o := got[s]; o.State != eviction.Observed || o.Available != 0 || o.Capacity <= 0 {
			t.Errorf("%s: %+v, want nothing left", s, o)
		}
	}
	if report != (eviction.LayoutReport{}) {
		t.Errorf("layout %+v, want shared", report)
	}
}
