package summary

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// FromFunc returns the source that asks a function of the embedding program. The
// function is called by one goroutine at a time, must return soon after its ctx
// ends, and must not change what it returned. A timeout of 0 is DefaultTimeout.
func FromFunc(summary func(ctx context.Context) ([]byte, error), timeout time.Duration) Source {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &function{call: newCall(timeout, summary)}
}

type function struct{ call call }

func (f *function) Fetch(ctx context.Context) ([]byte, error) {
	summary, err := f.call.do(ctx)
	if err != nil {
		return nil, fmt.Errorf("get summary from the embedding program: %w", err)
	}
	return summary, nil
}

func (f *function) Close(ctx context.Context) error { return f.call.close(ctx) }

// A call gives a deadline to what may not keep one: a file on a filesystem that
// hangs, a function that ignores its context. A call that is late is left
// behind, but never more than one.
type call struct {
	timeout time.Duration
	f       func(context.Context) ([]byte, error)
	busy    chan struct{} // holds a value while f runs
}

func newCall(timeout time.Duration, f func(context.Context) ([]byte, error)) call {
	return call{timeout: timeout, f: f, busy: make(chan struct{}, 1)}
}

func (c call) do(ctx context.Context) ([]byte, error) {
	ctx, cancel := deadline(ctx, c.timeout)
	defer cancel()
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: a former call has not ended", context.Cause(ctx))
	}
	var (
		summary []byte
		err     error
		done    = make(chan struct{})
	)
	go func() { // close waits for it
		defer close(done)
		defer func() { <-c.busy }()
		if summary, err = c.f(ctx); err == nil {
			err = check(summary)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return summary, nil
}

// close waits for a call that was left behind. There may be calls afterwards.
func (c call) close(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}: // whatever ctx says
		<-c.busy
		return nil
	default:
	}
	select {
	case c.busy <- struct{}{}:
		<-c.busy
		return nil
	case <-ctx.Done():
		return errors.New("a late call for the summary has not ended")
	}
}
