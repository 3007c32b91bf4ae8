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
	// spareCount is how many files can be written once nothing is left on the
	// disk: conditions, the victim of the pressure, and some that are over limits.
	spareCount = 4
	// spareBytes is more than a kill has unless its pod has hundreds of containers.
	spareBytes = 16 << 10
)

// spares are files that own their inode and their blocks from a time when there
// was room: an evictd that fights a full disk must be able to keep its state on it.
type spares struct {
	dir string

	mu   sync.Mutex
	have [spareCount]bool
}

func newSpares(dir string) *spares { return &spares{dir: dir} }

func (s *spares) path(i int) string {
	return filepath.Join(s.dir, spareName+strconv.Itoa(i))
}

// take gives a spare file away.
func (s *spares) take() (path string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, have := range s.have {
		if have {
			s.have[i] = false
			return s.path(i), true
		}
	}
	return "", false
}

// fill makes the files that are missing, as far as there is room.
func (s *spares) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, have := range s.have {
		s.have[i] = have || makeSpare(s.path(i)) == nil
	}
}

// makeSpare makes a file with room of its own, or keeps the one of a former host.
func makeSpare(path string) error {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().IsRegular() && info.Size() == spareBytes {
			return nil
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, spareBytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.Write(make([]byte, spareBytes))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, remove(path))
	}
	return nil
}

// full reports whether an error says that the disk has no room: neither bytes nor
// inodes, or a quota is used up.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
