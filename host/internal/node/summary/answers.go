package summary

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

var (
	errClosed = errors.New("the host stops")
	// errNotRun refuses a pass and view that the host has not begun, or begun too long ago.
	errNotRun = errors.New("the host does not run it now")
)

// An answer is a fetch under way until done is closed. Its summary and err are immutable from then
// on.
type answer struct {
	done    chan struct{}
	stop    context.CancelCauseFunc
	summary []byte
	err     error
}

// lateFor is the time for which a summary that came late counts: for a pass and its decision.
const lateFor = 5 * time.Second

// views fetches once for each pass and view. A summary that comes later than a pass waits counts for
// the next views, for lateFor: the kubelet waits for its own.
type views struct {
	source  *Source
	fetched *answers.Input[[]byte]
	fetches sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// served is when the last summary was asked for that a view has, servedAt when the first view had
	// it.
	served, servedAt time.Time
	// running is the number of the current pass.
	running uint64
	// begun holds the views of the current and the previous pass, which a late Measure may still
	// ask for; nil if not fetched.
	begun map[eviction.PassView]*answer
}

// begin allows fetching for at.
func (a *views) begin(at eviction.PassView) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running != at.Pass {
		for former, answer := range a.begun {
			if former.Pass != a.running {
				answer.end(errNotRun)
				delete(a.begun, former)
			}
		}
		a.running = at.Pass
	}
	if _, known := a.begun[at]; !known {
		a.begun[at] = nil
	}
}

// get returns the answer for at, or ctx's error when the caller gives up, which does not affect
// other callers.
func (a *views) get(ctx context.Context, at eviction.PassView) ([]byte, error) {
	found, err := a.find(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("pass %d view %s: %w", at.Pass, summaryapi.ViewName(at.View), err)
	}
	select {
	case <-found.done:
		return found.summary, found.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// find returns the answer for at, possibly still under way. Only the current pass fetches: a new
// answer does not belong to a former pass.
func (a *views) find(ctx context.Context, at eviction.PassView) (*answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, begun := a.begun[at]
	switch {
	case a.closed:
		return nil, errClosed
	case found != nil:
		return found, nil
	case !begun || at.Pass != a.running:
		return nil, errNotRun
	}
	a.begun[at] = a.fetch(ctx)
	return a.begun[at], nil
}

// fetch starts a fetch that does not depend on its caller: it continues if the first caller gives
// up. It returns at once.
func (a *views) fetch(ctx context.Context) *answer {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	started := &answer{done: make(chan struct{}), stop: stop}
	began := time.Now()
	a.fetches.Go(func() {
		defer stop(nil)
		defer close(started.done)
		wait, cancel := context.WithTimeout(ctx, a.source.wait)
		defer cancel()
		got := a.fetched.Get(wait, began)
		err := got.Err
		switch cause := context.Cause(ctx); {
		case a.serve(got) && errors.Is(err, answers.ErrLate):
			err = nil
		case err != nil && cause != nil:
			err = cause
		case errors.Is(err, answers.ErrLate):
			err = fmt.Errorf("get summary from %s: no whole answer within %v", a.source.name, a.source.wait)
		case err != nil:
			err = errors.Unwrap(err) // it names the source
		}
		started.summary, started.err = got.Value, err
	})
	return started
}

// serve reports whether a view may have a summary that came late: no view had it until now, or one
// had it a moment ago, which may have begun a decision.
func (a *views) serve(got answers.Answer[[]byte]) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if got.Asked.After(a.served) {
		a.served, a.servedAt = got.Asked, time.Now()
	}
	return got.Known() && time.Since(a.servedAt) < lateFor
}

// close cancels all fetches with errClosed and waits for them.
func (a *views) close() {
	a.mu.Lock()
	a.closed = true
	for _, answer := range a.begun {
		answer.end(errClosed)
	}
	a.mu.Unlock()
	a.fetches.Wait()
	a.fetched.Close()
}

// end cancels the answer's fetch, if there is one.
func (a *answer) end(cause error) {
	if a != nil {
		a.stop(cause)
	}
}
