package wake

import (
	"sync"

	"github.com/evictd/evictd/shared/eviction"
)

// CauseWatchStarted is the cause of the wake that each new stream begins with.
const CauseWatchStarted = "watch started"

// A Box holds the conditions that were woken since somebody last looked: a wake asks to
// look at all signals that raise the same one. It may be used from any goroutine.
type Box struct {
	notify chan struct{}

	mu    sync.Mutex
	woken map[eviction.Condition]string // with the cause of the first wake
}

// NewBox returns an empty box.
func NewBox() *Box {
	return &Box{notify: make(chan struct{}, 1), woken: map[eviction.Condition]string{}}
}

// Put adds a wake.
func (b *Box) Put(c eviction.Condition, cause string) {
	b.mu.Lock()
	if _, ok := b.woken[c]; !ok {
		b.woken[c] = cause
	}
	b.mu.Unlock()
	select {
	case b.notify <- struct{}{}:
	default:
	}
}

// Notify delivers a value when there is something to take.
func (b *Box) Notify() <-chan struct{} { return b.notify }

// Take empties the box.
func (b *Box) Take() map[eviction.Condition]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	woken := b.woken
	b.woken = map[eviction.Condition]string{}
	return woken
}
