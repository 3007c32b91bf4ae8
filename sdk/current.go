package sdk

import (
	"errors"
	"sync/atomic"
)

// ErrNotConfigured is the answer of a plugin that was called before it was configured.
var ErrNotConfigured = errors.New("not configured yet: Configure comes first")

// Current holds the value that a plugin works with under the configuration in force. A call holds
// it when it begins and stays with it, whatever Configure does in the meantime. The zero
// Current has nothing yet; it must not be copied after its first use.
type Current[T any] struct {
	held atomic.Pointer[Held[T]]
}

// Held is a value that is not closed before it is released.
type Held[T any] struct {
	Value T

	closed   func()
	replaced chan struct{}
	// users are the calls that hold it, and the Current while it is in force.
	users atomic.Int64
}

// Set puts another value in force. When the last call that holds the former one has
// released it, that one's closed is called, if it has one.
func (c *Current[T]) Set(value T, closed func()) {
	next := &Held[T]{Value: value, closed: closed, replaced: make(chan struct{})}
	next.users.Store(1)
	if old := c.held.Swap(next); old != nil {
		close(old.replaced)
		old.Release()
	}
}

// Hold returns the value in force, which is to be released when the call has ended. It
// is ErrNotConfigured before the first Set.
func (c *Current[T]) Hold() (*Held[T], error) {
	for {
		h := c.held.Load()
		if h == nil {
			return nil, ErrNotConfigured
		}
		if h.hold() {
			return h, nil
		}
		// Another value has just taken over.
	}
}

// Hold holds a value once more, for what goes on when the call has ended.
func (h *Held[T]) Hold() { h.users.Add(1) }

// Release ends a Hold.
func (h *Held[T]) Release() {
	if h.users.Add(-1) == 0 && h.closed != nil {
		h.closed()
	}
}

// Replaced is closed when another value takes over.
func (h *Held[T]) Replaced() <-chan struct{} { return h.replaced }

func (h *Held[T]) hold() bool {
	for {
		users := h.users.Load()
		if users == 0 {
			return false
		}
		if h.users.CompareAndSwap(users, users+1) {
			return true
		}
	}
}
