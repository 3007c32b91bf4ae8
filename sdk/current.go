package sdk

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrNotConfigured means that a plugin was called before it was configured.
var ErrNotConfigured = errors.New("not configured yet: Configure comes first")

// Current holds a value that depends on the plugin's configuration. A call holds the value from
// its beginning to its end, even if Configure replaces it meanwhile. The zero Current is empty;
// it must not be copied after its first use. It is safe for concurrent use.
type Current[T any] struct {
	held atomic.Pointer[Held[T]]
}

// Held is a value that stays open until it is released.
type Held[T any] struct {
	Value T

	closed   func()
	replaced chan struct{}
	// users is the number of calls that hold the value, plus one while it is current.
	users atomic.Int64
}

// Set replaces the value. When the last call that holds the former value has released it, that
// value's closed function is called, unless it is nil.
func (c *Current[T]) Set(value T, closed func()) {
	next := &Held[T]{Value: value, closed: closed, replaced: make(chan struct{})}
	next.users.Store(1)
	if old := c.held.Swap(next); old != nil {
		close(old.replaced)
		old.Release()
	}
}

// Hold returns the current value; release it at the end of the call. The error is
// ErrNotConfigured before the first Set.
func (c *Current[T]) Hold() (*Held[T], error) {
	for {
		h := c.held.Load()
		if h == nil {
			return nil, ErrNotConfigured
		}
		if h.hold() {
			return h, nil
		}
		// The value was replaced and released meanwhile: try the new one.
	}
}

// Watch calls watch with the current value, and again with each one that replaces it, until ctx ends. The
// context of watch ends when its value is replaced. It helps to implement eviction.Watcher.
func (c *Current[T]) Watch(ctx context.Context, watch func(context.Context, T)) error {
	for ctx.Err() == nil {
		h, err := c.Hold()
		if err != nil {
			return err
		}
		h.watch(ctx, watch)
	}
	return nil
}

func (h *Held[T]) watch(ctx context.Context, watch func(context.Context, T)) {
	defer h.Release()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-h.replaced:
			stop()
		case <-ctx.Done():
		}
	}()
	watch(ctx, h.Value)
}

// Hold holds the value once more, for work that continues after the call has ended.
func (h *Held[T]) Hold() { h.users.Add(1) }

// Release ends a Hold.
func (h *Held[T]) Release() {
	if h.users.Add(-1) == 0 && h.closed != nil {
		h.closed()
	}
}

// Replaced returns a channel that is closed when the value is replaced.
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
