package walk

import (
	"math"

	"golang.org/x/sys/unix"
)

// blockSize is the unit of st_blocks, whatever the filesystem's own blocks are.
const blockSize = 512

// tally adds up inodes, each once.
type tally struct {
	sum   Usage
	links inodes
	// Shares of files whose links are too many to remember.
	sharedBytes, sharedInodes float64
}

// count adds what st describes, unless it was counted under another name.
func (t *tally) count(st *unix.Statx_t) {
	bytes := int64(st.Blocks) * blockSize
	// A directory has one name, and as many links as subdirectories.
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		switch t.links.add(st.Ino) {
		case known:
			return
		case full:
			t.sharedBytes += float64(bytes) / float64(st.Nlink)
			t.sharedInodes += 1 / float64(st.Nlink)
			return
		case added:
		}
	}
	t.sum.Bytes += bytes
	t.sum.Inodes++
}

func (t *tally) usage() Usage {
	return Usage{
		Bytes:  t.sum.Bytes + int64(math.Round(t.sharedBytes)),
		Inodes: t.sum.Inodes + int64(math.Round(t.sharedInodes)),
	}
}

// inodes is a set of at most max inode numbers: eight bytes each, in an open
// table that is at most three quarters full.
type inodes struct {
	slots []uint64 // a power of two of them; 0 is free, no inode has that number
	n     int
	max   int
}

type membership uint8

const (
	added membership = iota
	known
	full
)

func (s *inodes) add(ino uint64) membership {
	if s.slots == nil {
		s.slots = make([]uint64, 64)
	}
	i := s.find(ino)
	switch {
	case s.slots[i] == ino:
		return known
	case s.n >= s.max:
		return full
	}
	s.slots[i] = ino
	s.n++
	if 4*s.n > 3*len(s.slots) {
		s.grow()
	}
	return added
}

// find returns the slot that has ino, or the free one where it belongs.
func (s *inodes) find(ino uint64) int {
	mask := uint64(len(s.slots) - 1)
	// Inode numbers come in runs and in steps: the upper half of the product
	// (Fibonacci hashing) spreads both.
	i := ino * 0x9E3779B97F4A7C15 >> 32 & mask
	for s.slots[i] != 0 && s.slots[i] != ino {
		i = (i + 1) & mask
	}
	return int(i)
}

func (s *inodes) grow() {
	old := s.slots
	s.slots = make([]uint64, 2*len(old))
	for _, ino := range old {
		if ino != 0 {
			s.slots[s.find(ino)] = ino
		}
	}
}
