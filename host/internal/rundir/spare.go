package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// room is what a spare file owns.
type room uint8

const (
	missing room = iota
	some         // what a note had that another one has replaced: mostly one block
	whole        // spareBytes
)

// spares are files that own their inode and their blocks from a time when there
// was room: an evictd that fights a full disk must be able to keep its state on it.
// What they own is not given up to make a new one, since whoever fills the disk
// would be faster.
type spares struct {
	prefix string // of their paths

	mu   sync.Mutex
	have []room
}

func newSpares(dir, name string, n int) *spares {
	return &spares{prefix: filepath.Join(dir, name), have: make([]room, n)}
}

func (s *spares) path(i int) string { return s.prefix + strconv.Itoa(i) }

// take gives a spare file away, with as much room as there is. It has the name to
// from then on, so that nobody takes it for a spare one.
func (s *spares) take(to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.have, whole)
	if i < 0 {
		i = slices.Index(s.have, some)
	}
	if i < 0 {
		return false
	}
	s.have[i] = missing
	return os.Rename(s.path(i), to) == nil
}

// give makes a file that is of no use any more a spare one. If none is missing
// the file is removed.
func (s *spares) give(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.have, missing); i >= 0 && os.Rename(path, s.path(i)) == nil {
		s.have[i] = some
		return nil
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

// forget says that none of them is there any more.
func (s *spares) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.have)
}

// fill makes the files that are missing, as far as there is room.
func (s *spares) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, have := range s.have {
		if have != whole {
			s.have[i] = makeSpare(s.path(i))
		}
	}
}

// makeSpare makes a file with room of its own, or keeps the one of a former host.
// One that cannot be made larger is kept as it is.
func makeSpare(path string) room {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		_ = os.RemoveAll(path) // if it stays it cannot be opened
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return missing
	}
	defer f.Close() //nolint:errcheck // what could not be written has no room
	info, err := f.Stat()
	if err == nil && info.Size() >= spareBytes {
		return whole
	}
	if err == nil {
		err = allocate(f)
	}
	if err == nil {
		return whole
	}
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		return some
	}
	_ = remove(path) // an inode alone is no room
	return missing
}

func allocate(f *os.File) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, spareBytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.Write(make([]byte, spareBytes))
	}
	return err
}

// full reports whether an error says that the disk has no room: neither bytes nor
// inodes, or a quota is used up.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
