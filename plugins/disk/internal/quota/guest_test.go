package quota_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/disk/internal/quota"
	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/test/harness/uml"
)

func TestMain(m *testing.M) {
	uml.Main()
	os.Exit(m.Run())
}

// ext4 keeps project quota in a format whose code is a module.
var modules = []string{"fs/quota/quota_tree.ko", "fs/quota/quota_v2.ko"}

// TestProjectQuota runs the guest's tests with an XFS and an ext4, which the
// kernel of this machine may not count projects on.
func TestProjectQuota(t *testing.T) {
	uml.Require(t)
	dir := t.TempDir()
	m := uml.Machine{Files: map[string][]byte{}}
	for _, mkfs := range [][]string{{"mkfs.xfs", "-q"}, {"mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota"}} {
		image := filepath.Join(dir, mkfs[0])
		must(t, os.WriteFile(image, nil, 0o600))
		must(t, os.Truncate(image, 512<<20))
		if out, err := exec.CommandContext(t.Context(), mkfs[0], append(mkfs[1:], image)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", mkfs, err, out)
		}
		m.Disks = append(m.Disks, image)
	}
	for _, name := range modules {
		m.Files[filepath.Base(name)] = uml.Module(t, name)
	}
	uml.Run(t, m)
}

func TestGuestXFS(t *testing.T) {
	uml.In(t)
	onFilesystem(t, "/dev/ubda", "xfs")
}

func TestGuestExt4(t *testing.T) {
	uml.In(t)
	for _, name := range modules {
		f, err := os.Open("/" + filepath.Base(name))
		must(t, err)
		must(t, errors.Join(unix.FinitModule(int(f.Fd()), "", 0), f.Close()))
	}
	onFilesystem(t, "/dev/ubdb", "ext4")
}

// onFilesystem tells the whole story on one filesystem.
func onFilesystem(t *testing.T, disk, kind string) {
	top := "/" + kind
	must(t, os.MkdirAll(top, 0o755))
	must(t, unix.Mount(disk, top, kind, 0, "prjquota"))
	defer func() { must(t, unix.Unmount(top, 0)) }()
	volume := top + "/volume"
	for i, name := range []string{"volume", "plain", "closed", "other", "shared-a", "shared-b"} {
		must(t, os.Mkdir(top+"/"+name, 0o755))
		switch name {
		case "plain":
		case "closed": // its files belong to no project
			setProject(t, top+"/"+name, uint32(100+i), 0)
		default:
			setProject(t, top+"/"+name, uint32(100+i), projectInherit)
		}
	}
	must(t, os.Symlink("volume", top+"/link"))
	register(t,
		"100:"+volume, "101:"+top+"/plain", "102:"+top+"/closed", "99:"+top+"/other", "100:/nowhere",
		"104:"+top+"/shared-a", "104:"+top+"/shared-b", "105:"+top+"/link", "106:/tmp")
	if u, ok := read(t).Usage(volume); ok {
		t.Errorf("registered with another directory: %+v", u)
	}
	register(t,
		"100:"+volume, "101:"+top+"/plain", "102:"+top+"/closed", "99:"+top+"/other",
		"104:"+top+"/shared-a", "104:"+top+"/shared-b", "105:"+top+"/link", "106:/tmp")
	projects := read(t)
	for _, name := range []string{top + "/plain", top + "/closed", top + "/other", top + "/shared-a", top + "/link", top, "/tmp", top + "/gone"} {
		if u, ok := projects.Usage(name); ok {
			t.Errorf("%s is said to take %+v", name, u)
		}
	}
	agree(t, projects, volume, 1, 0)

	// 40 files in 4 directories, one with two names, one sparse, one outside.
	for i := range 4 {
		dir := fmt.Sprintf("%s/%d", volume, i)
		must(t, os.Mkdir(dir, 0o755))
		for j := range 10 {
			write(t, fmt.Sprintf("%s/%d", dir, j), 10_000)
		}
	}
	write(t, top+"/plain/file", 1<<20)
	must(t, os.Link(volume+"/0/0", volume+"/1/link"))
	must(t, os.Truncate(volume+"/0/1", 1<<30))
	must(t, os.Symlink("/", volume+"/root"))
	agree(t, projects, volume, 1+4+40+1, 40*10_000)

	gone, err := os.Open(volume + "/3/3")
	must(t, err)
	must(t, os.Remove(volume+"/3/3"))
	agree(t, projects, volume, 46, 40*10_000)
	must(t, gone.Close())
	must(t, os.RemoveAll(volume+"/2"))
	agree(t, projects, volume, 46-1-11, 29*10_000)
}

// agree compares the quota with what was written, and with the walk and the
// deleted files that this process holds. XFS gives back what was removed a moment
// later.
func agree(t *testing.T, projects *quota.Projects, dir string, inodes, atLeastBytes int64) {
	t.Helper()
	var got, want walk.Usage
	var asked time.Duration
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		unix.Sync() // allocates what was written
		var ok bool
		start := time.Now()
		got, ok = projects.Usage(dir)
		asked = time.Since(start)
		if !ok {
			t.Fatalf("%s has no quota", dir)
		}
		if want = walked(t, dir); got == want {
			break
		}
	}
	t.Logf("%s: %+v, asked in %v", dir, got, asked)
	if got != want {
		t.Errorf("%s takes %+v by quota, %+v by walk", dir, got, want)
	}
	if got.Inodes != inodes || got.Bytes < atLeastBytes || got.Bytes > atLeastBytes*2+64<<10 {
		t.Errorf("%s takes %+v, want %d inodes and some more than %d bytes", dir, got, inodes, atLeastBytes)
	}
}

// walked counts dir, and the deleted files of its filesystem that are held here.
func walked(t *testing.T, dir string) walk.Usage {
	t.Helper()
	w, err := walk.Open(dir, walk.Options{MaxOpen: 16, MaxLinks: 1 << 18})
	must(t, err)
	defer w.Close()
	start := time.Now()
	if done, err := w.Continue(t.Context()); !done || err != nil {
		t.Fatalf("walk %s: %v, %v", dir, done, err)
	}
	held, err := walk.Deleted(t.Context(), "/proc", slices.Values([]int{os.Getpid()}), w.Device(), 100_000)
	must(t, err)
	t.Logf("%s: walked in %v, deleted and held %+v", dir, time.Since(start), held)
	return walk.Usage{Bytes: w.Usage().Bytes + held.Bytes, Inodes: w.Usage().Inodes + held.Inodes}
}

const projectInherit = 0x200 // FS_XFLAG_PROJINHERIT

// setProject does as "xfs_quota -c 'project -s'" to one directory.
func setProject(t *testing.T, dir string, id, flags uint32) {
	t.Helper()
	f, err := os.Open(dir)
	must(t, err)
	defer f.Close()
	x := struct {
		flags, extentSize, extents, project, cowExtentSize uint32
		_                                                  [8]byte
	}{flags: flags, project: id}
	const fsSetXattr = 0x401c5820 // FS_IOC_FSSETXATTR
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fsSetXattr, uintptr(unsafe.Pointer(&x))); errno != 0 {
		t.Fatalf("make %s a project: %v", dir, errno)
	}
}

func register(t *testing.T, lines ...string) {
	t.Helper()
	var file bytes.Buffer
	for _, l := range lines {
		fmt.Fprintln(&file, l)
	}
	must(t, os.MkdirAll("/etc", 0o755))
	must(t, os.WriteFile("/etc/projects", file.Bytes(), 0o644))
}

func read(t *testing.T) *quota.Projects {
	t.Helper()
	p, err := quota.Read("")
	must(t, err)
	return p
}

func write(t *testing.T, name string, n int) {
	t.Helper()
	must(t, os.WriteFile(name, bytes.Repeat([]byte{'e'}, n), 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
