// Package hang waits for calls that may never return: of a filesystem whose server is
// away, of a cgroup whose lock is held. Nothing can end such a call. It is left behind, in
// a goroutine of its own that ends with it, and its caller goes on.
// A panic in a goroutine of its own is an error for the caller, or a panic there.
//
// It is not a way to end what can be ended: that takes a context.
package hang

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// ErrHangs is the error of a call that was left behind, or not begun because a former one is
// still in progress.
var ErrHangs = errors.New("the filesystem does not answer")

// Do returns what call returns. When late is closed before, call is left behind, and
// ended, unless it is nil, is called when it has returned after all.
func Do[T any](late <-chan struct{}, call func() (T, error), ended func()) (T, error) {
	return begin(late, call, ended).Wait()
}

// A Pending call is on its way.
type Pending[T any] struct {
	late     <-chan struct{}
	answered chan struct{}
	settled  atomic.Bool // by the first of two: the answer, or late
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

// Try is call with an error for a panic, which is logged: for a goroutine that shares the process with
// others.
func Try[T any](call func() (T, error)) (value T, err error) {
	if p := Catch(func() { value, err = call() }); p != nil {
		slog.Error("call panicked", "panic", p.Value, "stack", string(p.Stack))
		err = fmt.Errorf("panic: %v", p.Value)
	}
	return value, err
}

// Wait returns what the call returned, or ErrHangs when it is left behind. It is called
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

// A Slot is held by one call at a time. What hangs keeps its slot and no other one.
type Slot chan struct{}

// NewSlot returns a slot that is free.
func NewSlot() Slot { return make(Slot, 1) }

// DoIn is Do when the slot is free, for which it waits until late.
func DoIn[T any](slot Slot, late <-chan struct{}, call func() (T, error)) (T, error) {
	return BeginIn(slot, late, call).Wait()
}

// BeginIn is DoIn for a caller that does something else meanwhile.
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

// Left has the names of calls that were left behind and have not returned. The zero Left
// has none. It is safe for concurrent use.
type Left struct {
	mu    sync.Mutex
	calls map[string]int
}

// DoAs is Do, unless a call of that name hangs.
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

// add may take away first what is only added afterwards.
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
