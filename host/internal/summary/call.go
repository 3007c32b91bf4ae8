package summary

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
