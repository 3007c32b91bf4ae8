package podusage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/hang"
)

// trees holds the directories that are remembered between calls.
type trees struct {
	open func(string, walk.Options) (walker, error)

	mu     sync.Mutex
	byDir  map[string]*tree
	closed bool
}

// at returns the tree of a directory. fleeting: no walk in it may wait for the next call.
func (ts *trees) at(dir string, fleeting bool, now time.Time) *tree {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byDir[dir]
	if t == nil {
		t = &tree{dir: dir, slot: &slot{token: hang.NewSlot()}}
		ts.byDir[dir] = t
	}
	t.set(func() { t.asked, t.fleeting = now, fleeting })
	return t
}

// endWaiting ends the walks that must not wait for the next call: the fleeting ones, and all others
// but mostWaiting. It keeps those that began first, so that each walk is completed eventually.
func (ts *trees) endWaiting() {
	type waiter struct {
		t     *tree
		since time.Time
	}
	var waiting []waiter
	ts.mu.Lock()
	all, closed := slices.Collect(maps.Values(ts.byDir)), ts.closed
	ts.mu.Unlock()
	for _, t := range all {
		var begun time.Time
		var fleeting bool
		t.set(func() { begun, fleeting = t.begun, t.fleeting })
		switch {
		case begun.IsZero(), t.slot.stuck():
		case fleeting || closed:
			t.interrupt()
		default:
			waiting = append(waiting, waiter{t, begun})
		}
	}
	if len(waiting) <= mostWaiting {
		return
	}
	slices.SortFunc(waiting, func(a, b waiter) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.t.dir, b.t.dir))
	})
	for _, w := range waiting[mostWaiting:] {
		w.t.interrupt()
	}
}

// tidy forgets the trees that were not requested for forgetAfter: their pods are gone, or the
// pressure is.
func (ts *trees) tidy(now time.Time) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for dir, t := range ts.byDir {
		var asked time.Time
		t.set(func() { asked = t.asked })
		if now.Sub(asked) >= forgetAfter && t.interrupt() {
			delete(ts.byDir, dir)
		}
	}
}

// close ends all walks; a walk in progress ends when its call has ended.
func (ts *trees) close() {
	ts.mu.Lock()
	ts.closed = true
	ts.mu.Unlock()
	ts.endWaiting()
}

// interrupt ends a waiting walk and remembers what it has found. If the walk is in progress, it
// leaves it to its call and returns false.
func (t *tree) interrupt() bool {
	if !t.slot.try() {
		return false
	}
	defer t.slot.give()
	t.drop()
	return true
}
