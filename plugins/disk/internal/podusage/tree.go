package podusage

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// chunkEntries is the maximum number of entries of one directory to walk before the next one
	// gets its turn: some 30 ms if nothing has to be read from the disk.
	chunkEntries = 20_000
	// chunkTime limits the time of such a turn, if much has to be read from the disk.
	chunkTime = hangsAfter / 4
	// forgetAfter is the time after which a directory that is no longer requested is dropped,
	// including its walk.
	forgetAfter = 2 * time.Minute
	// mostWaiting is the maximum number of unfinished walks that are kept, each with its
	// descriptors and its memory of hard links.
	mostWaiting = 32
	// sameViewLasts is the time for which a figure is valid for its pass and view. A pass asks
	// twice: for the ranking and for the victim.
	sameViewLasts = 2 * time.Second
)

var walkOptions = walk.Options{MaxEntries: chunkEntries, MaxOpen: 8, MaxLinks: 1 << 17}

// A figure is the usage of a directory and when it was measured.
type figure struct {
	walk.Usage
	at time.Time
}

// atLeast returns the maximum of both, separately for bytes and inodes.
func (f figure) atLeast(u walk.Usage, at time.Time) figure {
	if u.Bytes >= f.Bytes {
		f.Bytes, f.at = u.Bytes, at
	}
	f.Inodes = max(f.Inodes, u.Inodes)
	return f
}

// A walker is a walk.Walk, or a test's.
type walker interface {
	Continue(ctx context.Context) (done bool, err error)
	Usage() walk.Usage
	Close() error
}

func openWalk(dir string, o walk.Options) (walker, error) {
	w, err := walk.Open(dir, o)
	if err != nil {
		return nil, err // not a nil *Walk in an interface
	}
	return w, nil
}

// A tree is a directory of the node and what is remembered of it between two calls.
type tree struct {
	dir string
	// slot must be held to use walk. A walk that hangs in the filesystem keeps it and so keeps
	// all others out.
	slot *slot
	walk walker

	mu sync.Mutex
	// complete is the figure of the last completed walk, partial that of a later, unfinished one.
	// Either is missing if its time is zero.
	complete, partial figure
	// at is the pass and view for which the last walk was completed.
	at eviction.PassView
	// asked is the time of the last request for a figure; begun is the start of the unfinished
	// walk, zero if there is none.
	asked time.Time
	begun time.Time
	// except, if not nil, are directories that the walk does not enter; then it counts only files.
	except []string
	// fleeting: the directory is a mount, which a waiting walk would keep busy.
	fleeting bool
}

// A look is the result for one tree.
type look struct {
	figure figure
	// ok: there is a figure. If neither ok nor err is set, the directory does not exist.
	ok  bool
	err error
	// partial: no walk of the directory was ever completed, so it may hold any amount.
	partial bool
}

// An answer is the result of a step in a tree.
type answer struct {
	look look
	// ok: look is final, since the directory has been counted, does not exist, cannot be read
	// or hangs, or the time is over.
	ok bool
	// spent is the approximate number of entries that the step read.
	spent int64
}

// step walks a chunk of t for c. It returns when stop ends, and soon after ctx ends unless the
// filesystem hangs.
func (t *tree) step(ctx, stop context.Context, c *call, open func(string, walk.Options) (walker, error)) answer {
	if err := t.slot.take(ctx); err != nil {
		return answer{look: t.known(err), ok: true}
	}
	if l, ok := t.fresh(c); ok {
		t.slot.give()
		return answer{look: l, ok: true}
	}
	if ctx.Err() != nil { // before its turn: it may hold any amount
		t.slot.give()
		l := t.known(nil)
		if !l.ok {
			l = look{figure: figure{at: c.began}, ok: true, partial: true}
		}
		return answer{look: l, ok: true}
	}
	a, err := bounded(stop, func() (a answer) {
		returned := false
		defer t.slot.give()
		defer func() {
			if !returned { // it panicked: the next walk starts over
				t.drop()
			}
		}()
		a, returned = t.walkOn(ctx, c, open), true
		return a
	}, c.meter.trees.endWaiting)
	if err != nil {
		return answer{look: t.known(err), ok: true}
	}
	return a
}

// walkOn walks a chunk. The caller holds the slot.
func (t *tree) walkOn(ctx context.Context, c *call, open func(string, walk.Options) (walker, error)) answer {
	if t.walk == nil {
		node := c.meter.places.fs
		w, err := open(node.Entry(t.dir), t.options(node))
		if errors.Is(err, fs.ErrNotExist) {
			t.set(func() { t.complete, t.partial = figure{}, figure{} })
			return answer{ok: true}
		}
		if err != nil {
			return answer{look: t.known(err), ok: true}
		}
		t.walk = w
		t.set(func() { t.begun = time.Now() })
	}
	before := t.walk.Usage().Inodes
	chunk, cancel := context.WithTimeout(ctx, chunkTime)
	defer cancel()
	done, err := t.walk.Continue(chunk)
	used := t.walk.Usage()
	now := time.Now()
	if !done {
		t.set(func() {
			t.partial = figure{used, now}
			if t.begun.Sub(t.complete.at) >= forgetAfter { // where no walk is ever completed, the directory may have shrunk since
				t.complete = figure{}
			}
		})
		spent := int64(chunkEntries)
		if chunk.Err() != nil {
			spent = used.Inodes - before
		}
		return answer{look: t.known(err), ok: err != nil, spent: spent}
	}
	// An error with done means that some directories cannot be read: use the figure of the others.
	t.drop()
	t.set(func() { t.complete, t.partial, t.at = figure{used, now}, figure{}, c.at })
	return answer{look: look{figure: figure{used, now}, ok: true}, ok: true, spent: used.Inodes - before + 1}
}

// options returns those of a walk. A directory that is gone is not met.
func (t *tree) options(node nodefs.FS) walk.Options {
	o := walkOptions
	t.set(func() {
		if t.except != nil {
			o.Except = map[uint64]bool{}
		}
		for _, dir := range t.except {
			var stat unix.Stat_t
			if unix.Lstat(node.Entry(dir), &stat) == nil {
				o.Except[stat.Ino] = true
			}
		}
	})
	return o
}

// fresh returns the figure if it is new enough for c: completed by another call after c began,
// or a moment ago for the same pass and view.
func (t *tree) fresh(c *call) (look, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	same := t.at == c.at && c.at.Pass != 0 && c.began.Sub(t.complete.at) < sameViewLasts
	if !t.complete.at.IsZero() && (same || t.complete.at.After(c.began)) {
		return look{figure: t.complete, ok: true}, true
	}
	return look{}, false
}

// known returns the remembered figure, or err if there is none.
func (t *tree) known(err error) look {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.partial.at.IsZero() && t.complete.at.IsZero():
		return look{err: err}
	case t.partial.at.IsZero():
		return look{figure: t.complete, ok: true}
	default:
		return look{figure: t.complete.atLeast(t.partial.Usage, t.partial.at), ok: true, partial: t.complete.at.IsZero()}
	}
}

// turn orders trees: unfinished walks come first, so that they are completed, then those of which
// nothing is known.
func (t *tree) turn() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.begun.IsZero():
		return 0
	case t.complete.at.IsZero() && t.partial.at.IsZero():
		return 1
	default:
		return 2
	}
}

// drop ends the walk. The caller holds the slot.
func (t *tree) drop() {
	if t.walk != nil {
		_ = t.walk.Close() // directories were only read: nothing can be lost
		t.walk = nil
	}
	t.set(func() { t.begun = time.Time{} })
}

func (t *tree) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}
