// Package rundir owns the run directory: the lock against a second evictd, plugins' sockets, and
// the journal. A restarted host finds in the journal the kills in flight and when conditions were
// last seen.
//
// The journal is valid for the same boot only. After a reboot no container of a former boot runs,
// and the kubelet too starts without conditions; so entries of another boot are dropped.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/dirtree"
)

const (
	lockName    = "lock"
	pluginsName = "plugins"
	killsName   = "kills"
	tmpSuffix   = ".tmp"
)

// Dir is a run directory locked by this process. It is safe for concurrent use, except for writes
// to the same file.
type Dir struct {
	path string
	now  func() (moment, error)
	lock *os.File
	// leftovers is why files of former plugins are left.
	leftovers error
}

// Open creates the directory if missing, locks it and removes what a killed predecessor left in it.
// It refuses a directory that belongs to another user, is accessible to others, or is locked by
// another evictd.
func Open(path string) (*Dir, error) { return open(path, systemNow) }

func open(path string, now func() (moment, error)) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	lock, err := acquire(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: lock, now: now}
	if err := d.prepare(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Path returns the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// Plugins returns the directory in which each start of a plugin gets a directory for its socket.
// Opening the run directory empties it, as far as that is fast: see Leftovers.
func (d *Dir) Plugins() string { return PluginsOf(d.path) }

// PluginsOf is like Plugins, but for a run directory that may not be open.
func PluginsOf(path string) string { return filepath.Join(path, pluginsName) }

// SocketOf returns the path of the socket on which the evictd with this run directory answers its
// commands.
func SocketOf(path string) string { return filepath.Join(path, "evictd.sock") }

// Leftovers returns why files of former plugins could not be removed in time. That does not prevent
// a start.
func (d *Dir) Leftovers() error { return d.leftovers }

// Close unlocks the directory. The lock file stays, because two successors could otherwise lock two
// different files.
func (d *Dir) Close() error { return d.lock.Close() }

// Check returns an error if the path no longer leads to the opened directory: then plugins cannot
// create their sockets, and another evictd may use the path.
func (d *Dir) Check() error {
	if !inPlace(d.lock) {
		return fmt.Errorf("run directory %s was removed or replaced", d.path)
	}
	for _, dir := range []string{d.Plugins(), d.kills()} {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("run directory %s has no directory %s any more", d.path, filepath.Base(dir))
		}
	}
	return nil
}

// emptyTimeout bounds removing files left by plugins of a former host at the start: they may be
// millions.
const emptyTimeout = time.Second

// throughMode lets other users access files whose names they know: a plugin with its own user must
// reach its socket.
const throughMode = 0o711

// makePrivate creates a directory at path that other users cannot access. It never changes the mode
// of an existing one, which may be a system directory named by mistake.
func makePrivate(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make run directory: %w", err)
	}
	if err := os.Mkdir(path, throughMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make run directory: %w", err)
	}
	return private(path)
}

// Check returns why Open would refuse path, which need not exist.
func Check(path string) error {
	err := private(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) { // Open creates it, or reports why it cannot
		return nil
	}
	return err
}

func private(path string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return fmt.Errorf("run directory %s: %w", path, err)
	}
	switch me, mode := os.Geteuid(), stat.Mode&0o7777; {
	case stat.Mode&unix.S_IFMT == unix.S_IFLNK:
		return fmt.Errorf("run directory %s is a symbolic link, want a directory", path)
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("run directory %s is not a directory", path)
	case int(stat.Uid) != me:
		return fmt.Errorf("run directory %s belongs to uid %d, want uid %d, which evictd runs as", path, stat.Uid, me)
	case mode&^throughMode != 0:
		return fmt.Errorf("run directory %s has mode %04o, want 0700 or 0711: choose a directory that only evictd uses, or chmod 0711 it", path, mode)
	}
	return nil
}

// prepare removes what a killed predecessor left and creates the subdirectories.
func (d *Dir) prepare() error {
	d.leftovers = empty(d.Plugins())
	err := d.makeDirs()
	if err == nil {
		err = errors.Join(removeTemporary(d.path), removeTemporary(d.kills()))
	}
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	return nil
}

// makeDirs creates the subdirectories.
func (d *Dir) makeDirs() error {
	for name, mode := range map[string]os.FileMode{pluginsName: throughMode, killsName: 0o700} {
		path := filepath.Join(d.path, name)
		err := os.Mkdir(path, mode)
		if info, there := os.Lstat(path); errors.Is(err, fs.ErrExist) && there == nil && info.IsDir() {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	// A former evictd may have created it, or the umask may have removed bits.
	return os.Chmod(d.Plugins(), throughMode)
}

// empty removes the content of a directory, or path itself if it is not a directory. It keeps the
// directory: on a full disk it could not be created again.
func empty(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return os.Remove(path)
	}
	entries, err := os.ReadDir(path)
	errs := []error{err}
	end := time.Now().Add(emptyTimeout)
	for _, e := range entries {
		errs = append(errs, dirtree.Remove(path, e.Name(), func() bool { return time.Now().Before(end) }))
	}
	return errors.Join(errs...)
}

// removeTemporary removes files that a killed host was writing.
func removeTemporary(dir string) error {
	left, err := fs.Glob(os.DirFS(dir), "*"+tmpSuffix)
	errs := []error{err}
	for _, name := range left {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

func (d *Dir) kills() string { return filepath.Join(d.path, killsName) }

// acquire locks the run directory while the returned file is open. The kernel releases the lock
// when the process ends, in whatever way.
func acquire(dir string) (*os.File, error) {
	name := filepath.Join(dir, lockName)
	lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock run directory: %w", err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("run directory %s is in use by %s: stop it, or give this evictd a run directory of its own", dir, holder(lock))
		return nil, errors.Join(err, lock.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), lock.Close())
	}
	// The pid is only for the message above: a full disk must not prevent the start, so errors are
	// ignored.
	if lock.Truncate(0) == nil {
		_, _ = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return lock, nil
}

// ID identifies a run directory in all mount namespaces, and names it. It is empty if it was never open.
func ID(dir string) (id, owner string) {
	var stat unix.Stat_t
	if unix.Lstat(filepath.Join(dir, lockName), &stat) != nil {
		return "", ""
	}
	id = fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
	return id, id + " " + dir
}

// InUse reports whether an evictd in this pid namespace has locked the run directory.
func InUse(dir string) bool { return input.Locked(filepath.Join(dir, lockName)) }

// holder names the process that wrote its pid into the lock file.
func holder(lock *os.File) string {
	buf := make([]byte, 32)
	n, _ := lock.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid <= 0 {
		return "another evictd"
	}
	return fmt.Sprintf("another evictd, pid %d", pid)
}

// inPlace reports whether the open file is still the one at its path.
func inPlace(f *os.File) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(open, there)
}

// A moment is one instant on the clocks that the journal needs. Boot time continues while the
// machine is suspended and never jumps, so ages are computed from it; it is valid within one boot
// only.
type moment struct {
	wall      time.Time
	bootNanos int64
	bootID    string
}

// systemNow returns the present moment.
func systemNow() (moment, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id") //nolint:forbidigo // the kernel's
	if err != nil {
		return moment{}, fmt.Errorf("boot id: %w", err)
	}
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return moment{}, fmt.Errorf("boot time: %w", err)
	}
	return moment{wall: time.Now(), bootNanos: boot.Nano(), bootID: strings.TrimSpace(string(id))}, nil
}

// stamp is a moment as stored in a file.
type stamp struct {
	Wall      time.Time `json:"wall"`
	BootNanos int64     `json:"bootNanos"`
}

// at returns the stamp of t, which is near m. The difference is taken on the monotonic clock if t
// has a reading of it.
func (m moment) at(t time.Time) stamp {
	return stamp{Wall: t.Round(0), BootNanos: m.bootNanos - int64(m.wall.Sub(t))}
}

// since returns the time from the stamp to m, never negative and never longer than the boot.
func (m moment) since(s stamp) time.Duration {
	return time.Duration(m.bootNanos - min(max(s.BootNanos, 0), m.bootNanos))
}
