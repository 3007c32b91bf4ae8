package walk

import (
	"math"

	"golang.org/x/sys/unix"
)

// blockSize is the unit of st_blocks, independent of the filesystem's block size.
const blockSize = 512

// tally adds up inodes, each of them once.
type tally struct {
	sum   Usage
	links inodes
	// The shares of files with several links that exceed the limit of links.
	sharedBytes, sharedInodes float64
}

// count adds the inode in st, unless it was counted through another link.
func (t *tally) count(st *unix.Statx_t) {
	bytes := int64(st.Blocks) * blockSize
	// A directory has one name; its link count is that of its subdirectories.
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

// inodes is a set of at most max inode numbers.
type inodes struct {
	seen map[uint64]struct{}
	max  int
}

type membership uint8

const (
	added membership = iota
	known
	full
)

func (s *inodes) has(ino uint64) bool {
	_, ok := s.seen[ino]
	return ok
}

func (s *inodes) add(ino uint64) membership {
	if s.has(ino) {
		return known
	}
	if len(s.seen) >= s.max {
		return full
	}
	if s.seen == nil {
		s.seen = map[uint64]struct{}{}
	}
	s.seen[ino] = struct{}{}
	return added
}
