// Package answers keeps what is known of an input of a decision that may be slow, fail or hang, such
// as a list of the container runtime: the last good answer with its age, and the call under way.
//
// It does not say what to do without an answer: that is up to the caller, who must do something.
package answers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/hang"
)

// refusedFor is the time for which a call that was refused is not repeated.
const refusedFor = time.Minute

// A refusal is the error of a call that would fail again.
type refusal struct{ error }

// Unwrap returns the error itself.
func (r refusal) Unwrap() error { return r.error }

// Refused marks the error of a call that would fail again: its answer is too large, or the call is
// not implemented.
func Refused(err error) error { return refusal{err} }

// IsRefused reports whether an error is marked by Refused.
func IsRefused(err error) bool {
	_, refused := errors.AsType[refusal](err)
	return refused
}

// ErrClosed is the error of an Input after Close.
var ErrClosed = errors.New("closed")

// ErrLate is the error of a call that has not ended when its caller's time is over.
var ErrLate = errors.New("no answer in time")

// An Answer is a value with its age.
type Answer[T any] struct {
	Value T
	// Asked is when the call that brought Value began, zero if there never was an answer. Later
	// changes may be missing.
	Asked time.Time
	// Err is why there is no newer answer, nil if Value is what was asked for.
	Err error
}

// Known reports whether there is a value, of whatever age.
func (a Answer[T]) Known() bool { return !a.Asked.IsZero() }

// An Input asks one question about the node. At most one call is under way, for all who ask. It
// outlives them, and its answer is kept even if it comes late. An Input is safe for concurrent use.
type Input[T any] struct {
	name    string
	timeout time.Duration
	ask     func(context.Context) (T, error)

	mu      sync.Mutex
	last    Answer[T]     // the last good answer, without Err
	err     error         // of the last call, nil after a good one
	tried   time.Time     // when the last call began that has ended
	began   time.Time     // when the call under way began
	refused time.Time     // when the last call was refused
	done    chan struct{} // closed when the call under way has ended, nil if there is none
	cancel  context.CancelFunc
	closed  bool
}

// New returns an Input. The name appears in errors. The context of ask ends after timeout.
func New[T any](name string, timeout time.Duration, ask func(context.Context) (T, error)) *Input[T] {
	return &Input[T]{name: name, timeout: timeout, ask: ask}
}

// Get returns an answer to a call that began at since or later. It joins the call under way, or
// begins one. If there is no such answer before ctx ends, or the call fails, it returns the last
// good one with Err. It does not call again within a minute after a refusal.
func (i *Input[T]) Get(ctx context.Context, since time.Time) Answer[T] {
	for waited := false; ; waited = true {
		answer, done := i.look(ctx, since, waited)
		if done == nil {
			return answer
		}
		select {
		case <-done:
		case <-ctx.Done():
			i.mu.Lock()
			defer i.mu.Unlock()
			return i.answer(since)
		}
	}
}

// Last returns the last good answer, of whatever age. It does not call.
func (i *Input[T]) Last() Answer[T] {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.last
}

// Pending returns for how long the call under way has been, 0 if there is none.
func (i *Input[T]) Pending() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.done == nil {
		return 0
	}
	return time.Since(i.began)
}

// look returns the answer if there is no call to wait for. waited: a call has ended since Get began.
func (i *Input[T]) look(ctx context.Context, since time.Time, waited bool) (Answer[T], <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.closed, i.last.Asked.After(since), waited && !i.tried.Before(since), i.done == nil && time.Since(i.refused) < refusedFor:
		return i.answer(since), nil
	case i.done == nil:
		i.begin(ctx)
	}
	return Answer[T]{}, i.done
}

// answer returns the last answer, with the reason if it is not one to a call since then.
func (i *Input[T]) answer(since time.Time) Answer[T] {
	answer, failed := i.last, i.err != nil && !i.tried.Before(since)
	switch {
	case i.closed:
		return Answer[T]{Err: ErrClosed}
	case i.last.Known() && !i.last.Asked.Before(since):
	case !failed && (i.done != nil || i.err == nil):
		answer.Err = fmt.Errorf("%s: %w", i.name, ErrLate)
	default:
		answer.Err = fmt.Errorf("%s: %w", i.name, i.err)
	}
	return answer
}

// begin begins a call. The caller holds mu.
func (i *Input[T]) begin(ctx context.Context) {
	ctx, i.cancel = context.WithTimeout(context.WithoutCancel(ctx), i.timeout)
	began, done := time.Now(), make(chan struct{})
	i.began, i.done = began, done
	go func() {
		value, err := hang.Try(func() (T, error) { return i.ask(ctx) })
		i.mu.Lock()
		defer i.mu.Unlock()
		i.cancel()
		i.done, i.err, i.tried = nil, err, began
		if err == nil {
			i.last = Answer[T]{Value: value, Asked: began}
		} else if IsRefused(err) {
			i.refused = time.Now()
		}
		close(done)
	}()
}

// Close cancels the call under way and waits for its end. Get returns ErrClosed from then on.
func (i *Input[T]) Close() {
	i.mu.Lock()
	i.closed = true
	done := i.done
	if done != nil {
		i.cancel()
	}
	i.mu.Unlock()
	if done != nil {
		<-done
	}
}
