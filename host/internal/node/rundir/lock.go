package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

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

// InUse reports whether an evictd in this pid namespace has locked the run directory. It does not
// try the lock, which could make a starting evictd fail.
func InUse(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, lockName))
	if err != nil {
		return false
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	locks, err := os.ReadFile("/proc/locks") //nolint:forbidigo // the kernel's
	return err == nil && slices.ContainsFunc(strings.Split(string(locks), "\n"), func(line string) bool {
		return strings.Contains(line, "FLOCK") && strings.Contains(line, fmt.Sprintf(":%d ", stat.Ino))
	})
}

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
