// Package hang waits for calls that may never return: on a filesystem whose server is away, on
// a cgroup whose lock is held. Such a call cannot be stopped. It is left behind in a separate
// goroutine, which ends when the call returns, and the caller goes on.
// A panic in that goroutine becomes an error for the caller, or a panic there.
//
// It is not for calls that can be stopped: use a context for these.
package hang

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// ErrHangs is the error of a call that was left behind, or not begun because an earlier one
// still hangs.
var ErrHangs = errors.New("the filesystem does not answer")

// Do returns what call returns. If late is closed before, call is left behind, and ended,
// unless it is nil, is called when call returns after all.
func Do[T any](late <-chan struct{}, call func() (T, error), ended func()) (T, error) {
	return begin(late, call, ended).Wait()
}

// A Pending call is in progress.
type Pending[T any] struct {
	late     <-chan struct{}
	answered chan struct{}
	settled  atomic.Bool // by whichever comes first: the answer or late
	left     bool
	value    T
	err      error
}

func begin[T any](late <-chan struct{}, call func() (T, error), ended func()) *Pending[T] {
	p := &Pending[T]{late: late, answered: make(chan struct{})}
	go func() {
		value, err := Try(call)
		if p.settled.CompareAndSwap(false, true) {
			p.value, p.err = value, err
			close(p.answered)
		} else if ended != nil {
			ended()
		}
	}()
	return p
}

// Try calls call and turns a panic, which it logs, into an error: for a goroutine that shares the
// process with others.
func Try[T any](call func() (T, error)) (value T, err error) {
	if p := Catch(func() { value, err = call() }); p != nil {
		slog.Error("call panicked", "panic", p.Value, "stack", string(p.Stack))
		err = fmt.Errorf("panic: %v", p.Value)
	}
	return value, err
}

// Wait returns what the call returned, or ErrHangs if it is left behind. It must be called only
// once.
func (p *Pending[T]) Wait() (T, error) {
	select {
	case <-p.answered:
		return p.value, p.err
	case <-p.late:
	}
	if p.settled.CompareAndSwap(false, true) {
		p.left = true
		return p.value, ErrHangs
	}
	<-p.answered // at the last moment
	return p.value, p.err
}

// A Slot is held by one call at a time. A call that hangs blocks its own slot only.
type Slot chan struct{}

// NewSlot returns a slot that is free.
func NewSlot() Slot { return make(Slot, 1) }

// DoIn is like Do, but first waits, until late at most, for the slot to be free.
func DoIn[T any](slot Slot, late <-chan struct{}, call func() (T, error)) (T, error) {
	return BeginIn(slot, late, call).Wait()
}

// BeginIn is like DoIn, but returns at once.
func BeginIn[T any](slot Slot, late <-chan struct{}, call func() (T, error)) *Pending[T] {
	return begin(late, func() (T, error) {
		select {
		case slot <- struct{}{}:
		case <-late:
			return *new(T), ErrHangs
		}
		defer func() { <-slot }()
		return call()
	}, nil)
}

// Left counts by name the calls that were left behind and have not returned. The zero Left
// is ready. It is safe for concurrent use.
type Left struct {
	mu    sync.Mutex
	calls map[string]int
}

// DoAs is like Do, but returns ErrHangs if an earlier call of that name still hangs.
func DoAs[T any](l *Left, name string, late <-chan struct{}, call func() (T, error)) (T, error) {
	if l.has(name) {
		return *new(T), ErrHangs
	}
	p := begin(late, call, func() { l.add(name, -1) })
	value, err := p.Wait()
	if p.left {
		l.add(name, 1)
	}
	return value, err
}

func (l *Left) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[name] > 0
}

// add changes a count. The -1 of a returned call may come before its +1.
func (l *Left) add(name string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[string]int{}
	}
	if l.calls[name] += n; l.calls[name] == 0 {
		delete(l.calls, name)
	}
}
