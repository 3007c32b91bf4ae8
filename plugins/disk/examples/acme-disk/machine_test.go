package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

const mib = 1 << 20

// A machine has a scratch disk of 64 MiB, with a cache on it, and the pods'
// directories are there. All else is on this machine's own disk.
type machine struct {
	t                        *testing.T
	dir                      string
	scratch, cache           string
	kubelet, logs, manifests string
	runtime                  *fakecri.Server
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs root: run make test")
	}
	dir := t.TempDir()
	m := &machine{t: t, dir: dir, runtime: fakecri.Start(t)}
	for name, at := range map[string]*string{
		"scratch": &m.scratch, "kubelet": &m.kubelet, "logs": &m.logs, "manifests": &m.manifests,
	} {
		*at = m.mkdir(filepath.Join(dir, name))
	}
	m.runtime.SetImageDir(m.mkdir(filepath.Join(dir, "images")))

	image := filepath.Join(dir, "scratch.img")
	m.must(os.WriteFile(image, nil, 0o600))
	m.must(os.Truncate(image, 64*mib))
	m.run("/usr/sbin/mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", image)
	m.mount("-o", "loop", image, m.scratch)
	m.mount("--bind", m.mkdir(filepath.Join(m.scratch, "pods")), m.mkdir(filepath.Join(m.kubelet, "pods")))
	m.cache = m.mkdir(filepath.Join(m.scratch, "cache"))
	return m
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) run(args ...string) {
	m.t.Helper()
	if out, err := exec.CommandContext(m.t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		m.t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// mount mounts until the test ends, or unmounts it.
func (m *machine) mount(args ...string) {
	m.t.Helper()
	m.run(append([]string{"mount", "-n"}, args...)...)
	at := args[len(args)-1]
	m.t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

func (m *machine) mkdir(path string) string {
	m.t.Helper()
	m.must(os.MkdirAll(path, 0o755))
	return path
}

// write writes a file that was last changed so long ago. Whoever it makes room for
// may remove it meanwhile.
func (m *machine) write(path string, bytes int64, age time.Duration) {
	m.t.Helper()
	m.mkdir(filepath.Dir(path))
	f, err := os.Create(path)
	m.must(err)
	m.must(errors.Join(fill(f, bytes, age), f.Close()))
}

// fill goes by the open file, whatever becomes of its name.
func fill(f *os.File, bytes int64, age time.Duration) error {
	_, err := f.Write(make([]byte, bytes))
	at := unix.NsecToTimeval(time.Now().Add(-age).UnixNano())
	return errors.Join(err, unix.Futimes(int(f.Fd()), []unix.Timeval{at, at}))
}

// The test of the cache and the pod failed once on a busy machine: the pod was
// evicted, and its file gone, before the file had its time.
func TestAFileMayBeRemovedWhileItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "more")
	for _, removed := range []bool{false, true} {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if removed {
			err = os.Remove(path)
		}
		if err := errors.Join(err, fill(f, 1, time.Hour)); err != nil {
			t.Errorf("removed %v: %v", removed, err)
		}
		if stat, err := f.Stat(); err != nil || stat.Size() != 1 || time.Since(stat.ModTime()) < time.Hour {
			t.Errorf("removed %v: %+v, %v; want a byte of an hour ago", removed, stat, err)
		}
		_ = f.Close()
	}
}

// fill puts n files of a MiB into the cache, in three directories. file-01 is the
// oldest.
func (m *machine) fill(n int) {
	m.t.Helper()
	for i := range n {
		m.write(m.cached(i+1), mib, time.Duration(n-i)*time.Hour)
	}
}

func (m *machine) cached(i int) string {
	return filepath.Join(m.cache, fmt.Sprintf("shard-%d", i%3), fmt.Sprintf("file-%02d", i))
}

func (m *machine) exists(path string) bool {
	m.t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return err == nil
}

// left returns the number of n files of the cache that are left, which must be the last ones.
func (m *machine) left(n int) (left int) {
	m.t.Helper()
	for i := 1; i <= n; i++ {
		switch there := m.exists(m.cached(i)); {
		case there:
			left++
		case left > 0:
			m.t.Errorf("file %d is gone although an older one is left", i)
		}
	}
	return left
}

// availablePercent of the scratch disk, as df sees it.
func (m *machine) availablePercent() int {
	m.t.Helper()
	var s unix.Statfs_t
	m.must(unix.Statfs(m.scratch, &s))
	return int(100 * s.Bavail / s.Blocks)
}

// facts returns the node as evictd would describe it to the plugin.
func (m *machine) facts() eviction.NodeFacts {
	return eviction.NodeFacts{
		RootDir: "/", CgroupRoot: "/evictd-test-none", CgroupDriver: "cgroupfs",
		KubeletRootDir: m.kubelet, PodLogsDir: m.logs, RuntimeEndpoint: m.runtime.Endpoint(),
	}
}

func (m *machine) config(freePercent int) map[string]any {
	return map[string]any{"mountPoint": m.scratch, "freePercent": freePercent}
}
