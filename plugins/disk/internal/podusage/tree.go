package podusage

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/evictd/evictd/plugins/disk/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// chunkEntries bounds the entries of one directory that are walked before another one is:
	// some 30 ms where nothing has to be read from the disk.
	chunkEntries = 20_000
	// chunkTime bounds the time of that, where much has to be read.
	chunkTime = hangsAfter / 4
	// forgetAfter is the time after which a directory that no call asks for is dropped, with
	// the walk in it.
	forgetAfter = 2 * time.Minute
	// mostWaiting bounds the unfinished walks that are kept, each with its descriptors and its
	// memory of hard links.
	mostWaiting = 32
	// sameViewLasts is the time for which a figure is good for its pass and view. A pass asks
	// twice: for the ranking and for the victim.
	sameViewLasts = 2 * time.Second
)

var walkOptions = walk.Options{MaxEntries: chunkEntries, MaxOpen: 8, MaxLinks: 1 << 17}

// A figure is the usage of a directory, and the time at which it was measured.
type figure struct {
	walk.Usage
	at time.Time
}

// atLeast returns the larger of both, byte- and inode-wise.
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

// A tree is a directory and what is remembered of it between two looks.
type tree struct {
	dir string
	// slot is held by who walks here and owns walk. A walk that hangs in the filesystem
	// keeps it, and all others out.
	slot *slot
	walk walker

	mu sync.Mutex
	// complete is the figure of the last completed walk, partial that of one that was begun
	// since and is not finished. Without a time there is none.
	complete, partial figure
	// at is the view of the pass that the last walk was completed for.
	at eviction.PassView
	// asked is the time of the last request for a figure, begun the start of the walk that is
	// not finished, zero for none.
	asked time.Time
	begun time.Time
	// fleeting: the directory is a mount, which must not be kept busy.
	fleeting bool
}

// A look is the answer for one tree.
type look struct {
	figure figure
	// ok: there is a figure. Without one and without err there is no such directory.
	ok  bool
	err error
	// partial: no walk of the directory was ever completed, and it may hold anything.
	partial bool
}

// An answer is the result of a step in a tree.
type answer struct {
	look look
	// ok: there is one, since the directory is counted, is not there, cannot be read,
	// hangs, or the time is over.
	ok bool
	// spent is the approximate number of entries that were looked at.
	spent int64
}

// step walks a chunk of t for c. It ends with stop, and soon after ctx unless the
// filesystem hangs.
func (t *tree) step(ctx, stop context.Context, c *call, open func(string, walk.Options) (walker, error)) answer {
	if err := t.slot.take(ctx); err != nil {
		return answer{look: t.known(err), ok: true}
	}
	if l, ok := t.fresh(c); ok {
		t.slot.give()
		return answer{look: l, ok: true}
	}
	if ctx.Err() != nil {
		t.slot.give()
		return answer{look: t.known(errLate), ok: true}
	}
	a, err := bounded(stop, func() (a answer) {
		returned := false
		defer t.slot.give()
		defer func() {
			if !returned { // but panicked: the walk is begun from the start
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
		w, err := open(t.dir, walkOptions)
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
		t.set(func() { t.count(figure{used, now}) })
		spent := int64(chunkEntries)
		if chunk.Err() != nil {
			spent = used.Inodes - before
		}
		return answer{look: t.known(err), ok: err != nil, spent: spent}
	}
	// With done an error is about directories that cannot be read: the figure of
	// the others is what there is.
	t.drop()
	t.set(func() { t.complete, t.partial, t.at = figure{used, now}, figure{}, c.at })
	return answer{look: look{figure: figure{used, now}, ok: true}, ok: true, spent: used.Inodes - before + 1}
}

// fresh returns the figure if it is new enough for c: completed since c began, by
// another call, or a moment ago for the same pass and view.
func (t *tree) fresh(c *call) (look, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	same := t.at == c.at && c.at.Pass != 0 && c.began.Sub(t.complete.at) < sameViewLasts
	if !t.complete.at.IsZero() && (same || t.complete.at.After(c.began)) {
		return look{figure: t.complete, ok: true}, true
	}
	return look{}, false
}

// known is the answer from what is remembered, or why there is none.
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

// count notes what the walk under way has found so far. Where no walk is ever
// completed, what the last completed one has found must not stand for ever: the
// directory may have shrunk.
func (t *tree) count(so figure) {
	t.partial = so
	if t.begun.Sub(t.complete.at) >= forgetAfter {
		t.complete = figure{}
	}
}

// isBegun reports whether a walk waits to be continued.
func (t *tree) isBegun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.begun.IsZero()
}

// drop ends the walk. The caller holds the slot.
func (t *tree) drop() {
	if t.walk != nil {
		_ = t.walk.Close() // of directories that were read: nothing can be lost
		t.walk = nil
	}
	t.set(func() { t.begun = time.Time{} })
}

func (t *tree) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}
