package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	spareName = "spare."
	// killSpares is one file for each kill that can be noted once nothing is left on
	// the disk (the victim of the pressure, and two that are over limits), and one to
	// take turns with them when a kill is noted again.
	killSpares = 4

	conditionSpareName = "spare.conditions."
	// conditionSpares is one file to become the first note of conditions and one to
	// take turns with it.
	conditionSpares = 2

	// spareBytes is more than a kill has unless its pod has hundreds of containers.
	spareBytes = 16 << 10
)

// spares are files that own their inode and their blocks from a time when there
// was room: an evictd that fights a full disk must be able to keep its state on it.
// What they own is not given up to make a new one, since whoever fills the disk
// would be faster: a note that another one has replaced is a spare file, too, mostly
// of one block, until it can be made larger.
type spares struct {
	prefix string // of their paths
	n      int

	mu sync.Mutex
}

func newSpares(dir, name string, n int) *spares {
	return &spares{prefix: filepath.Join(dir, name), n: n}
}

func (s *spares) path(i int) string { return s.prefix + strconv.Itoa(i) }

// take gives the spare file with the most room away, if there is one. It has the name
// to from then on, so that nobody takes it for a spare one.
func (s *spares) take(to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	largest, room := "", int64(0)
	for i := range s.n {
		if info, err := os.Lstat(s.path(i)); err == nil && info.Mode().IsRegular() && info.Size() > room {
			largest, room = s.path(i), info.Size()
		}
	}
	return room > 0 && os.Rename(largest, to) == nil
}

// give makes a file that is of no use any more a spare one. If none is missing
// the file is removed.
func (s *spares) give(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.n {
		if _, err := os.Lstat(s.path(i)); errors.Is(err, os.ErrNotExist) && os.Rename(path, s.path(i)) == nil {
			return nil
		}
	}
	return remove(path)
}

// replace puts the file tmp in the place of path, and takes what was there.
func (s *spares) replace(tmp, path string) error {
	if unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE) != nil {
		return os.Rename(tmp, path) // nothing was there, or the filesystem cannot exchange
	}
	return s.give(tmp)
}

// fill makes the files that are missing, as far as there is room.
func (s *spares) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.n {
		makeSpare(s.path(i))
	}
}

// makeSpare makes a file with room of its own, or keeps the one of a former host.
// One that cannot be made larger is kept as it is.
func makeSpare(path string) {
	info, err := os.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		_ = os.RemoveAll(path) // if it stays it cannot be opened
	case err == nil && info.Size() >= spareBytes:
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // what could not be written has no room
	if allocate(f) == nil {
		return
	}
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		_ = remove(path) // an inode alone is no room
	}
}

func allocate(f *os.File) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, spareBytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.Write(make([]byte, spareBytes))
	}
	return err
}
