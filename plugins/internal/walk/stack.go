package walk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxLevels limits the memory for an endless chain of directories to 4 MiB. The kubelet gives
// up when a path is longer than PATH_MAX.
const maxLevels = 1 << 17

var (
	// errElsewhere means that a directory does not belong to the walk's tree.
	errElsewhere = errors.New("on another mount")
	errMoved     = errors.New("moved elsewhere during the walk")
)

// tree identifies what belongs to a walk: a device, as for the kubelet, and a mount, so that a
// bind mount is outside even on the same device. Linux before 5.8 does not report the mount; it
// is always 0 there.
type tree struct {
	device, mount uint64
}

func treeOf(st *unix.Statx_t) tree {
	t := tree{device: unix.Mkdev(st.Dev_major, st.Dev_minor)}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		t.mount = st.Mnt_id
	}
	return t
}

func (t tree) has(st *unix.Statx_t) bool { return t == treeOf(st) }

// stack is the place of a walk: the directories from the root to the deepest one, and the
// position in each. At most maxOpen of them are open: the first half from the top, the other
// from the bottom.
type stack struct {
	levels  []level
	tree    tree
	maxOpen int
	opener  opener
	stat    unix.Statx_t // of a directory that was reopened
}

// level is a directory and how far it has been read.
type level struct {
	block *block // the part read but not yet taken; nil if there is none
	ino   uint64
	after int64 // cookie of the last entry taken
	fd    int32 // -1: closed
	begun bool  // it has been read before; after is 0 until an entry is taken
}

// openRoot starts the stack with dir and stores its description in st.
func (s *stack) openRoot(dir string, st *unix.Statx_t) error {
	fd, err := s.opener.root(dir)
	if err != nil {
		return err
	}
	if err := statFD(fd, st); err != nil {
		closeFD(fd)
		return err
	}
	s.tree = treeOf(st)
	s.levels = append(s.levels, level{fd: int32(fd), ino: st.Ino})
	return nil
}

func (s *stack) top() *level { return &s.levels[len(s.levels)-1] }

// next returns the next entry of the deepest directory without taking it; it returns false at
// the end.
func (s *stack) next() (entry, bool, error) {
	l := s.top()
	for {
		if l.block == nil || l.block.empty() {
			if more, err := l.read(); !more || err != nil {
				return entry{}, false, err
			}
		}
		e, err := l.block.peek()
		if err != nil {
			return entry{}, false, err
		}
		if !e.dots() {
			return e, true, nil
		}
		s.take(e)
	}
}

// take skips e, which next returned last.
func (s *stack) take(e entry) { s.top().take(e) }

func (l *level) take(e entry) {
	l.after = e.cookie
	l.block.drop(e)
}

// read fills the level's block; it returns false at the end of the directory.
func (l *level) read() (bool, error) {
	if l.block == nil {
		l.block = blocks.Get().(*block)
		// The descriptor's position may be too early if the directory was reopened, or too
		// late if a block was released half taken.
		if l.begun {
			if _, err := unix.Seek(int(l.fd), l.after, unix.SEEK_SET); err != nil {
				return false, l.seekError(err)
			}
		}
	}
	l.begun = true
	return l.block.fill(int(l.fd))
}

// seekError finds out why a position is no longer valid: for a removed directory ext4 returns
// "invalid argument", which it replaces by ENOENT.
func (l *level) seekError(err error) error {
	var st unix.Stat_t
	if unix.Fstat(int(l.fd), &st) == nil && st.Nlink == 0 {
		return unix.ENOENT
	}
	return fmt.Errorf("seek: %w", err)
}

// giveUp releases the level's block.
func (l *level) giveUp() {
	if l.block != nil {
		l.block.reset()
		blocks.Put(l.block)
		l.block = nil
	}
}

func (l *level) close() {
	l.giveUp()
	if l.fd >= 0 {
		closeFD(int(l.fd))
		l.fd = -1
	}
}

// statEntry describes e. It follows no link and triggers no automount.
func (s *stack) statEntry(e entry, st *unix.Statx_t) error {
	return statx(int(s.top().fd), e.name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, st)
}

// enter takes the directory e, makes it the deepest one and stores its description in st.
func (s *stack) enter(e entry, st *unix.Statx_t) error {
	if len(s.levels) >= maxLevels {
		return fmt.Errorf("more than %d levels", maxLevels)
	}
	parent := s.top()
	fd, err := s.opener.dir(int(parent.fd), e.name)
	if err != nil {
		return err
	}
	if err := statFD(fd, st); err != nil {
		closeFD(fd)
		return err
	}
	if !s.tree.has(st) {
		closeFD(fd)
		return errElsewhere
	}
	parent.take(e)
	s.levels = append(s.levels, level{fd: int32(fd), ino: st.Ino})
	if i := len(s.levels) - 1 - s.lower(); i >= s.upper() {
		s.levels[i].close()
	}
	return nil
}

// upper and lower return how many levels from the top and from the bottom are open.
func (s *stack) upper() int { return s.maxOpen / 2 }
func (s *stack) lower() int { return s.maxOpen - s.upper() }

// leave returns to the deepest directory's parent. It returns how many directories could not
// be reopened; the walk loses what was left in them.
func (s *stack) leave() (lost int, err error) {
	last := len(s.levels) - 1
	if last > 0 && s.levels[last-1].fd < 0 {
		if err := s.reopen(last); err != nil {
			return 0, err
		}
	}
	s.levels[last].close()
	s.levels = s.levels[:last]
	for ; len(s.levels) > 0 && s.top().fd < 0; lost++ {
		s.levels = s.levels[:len(s.levels)-1]
	}
	return lost, nil
}

// reopen opens the parent of the level child through "..". If the directory was moved
// elsewhere, the parent stays closed.
func (s *stack) reopen(child int) error {
	fd, err := openat(int(s.levels[child].fd), nameParent)
	if scarce(err) {
		return err
	}
	if err != nil {
		return nil //nolint:nilerr // lost; leave tells
	}
	parent := &s.levels[child-1]
	if err := statFD(fd, &s.stat); err == nil && s.tree.has(&s.stat) && s.stat.Ino == parent.ino {
		parent.fd = int32(fd)
	} else {
		closeFD(fd)
	}
	return nil
}

// park releases the blocks, so that a waiting walk holds little memory. They are read again from
// the stored positions.
func (s *stack) park() {
	for i := range s.levels {
		if i >= s.upper() && i < len(s.levels)-s.lower() {
			continue // closed, and without a block
		}
		s.levels[i].giveUp()
	}
}

func (s *stack) close() {
	for i := range s.levels {
		s.levels[i].close()
	}
	s.levels = nil
}
