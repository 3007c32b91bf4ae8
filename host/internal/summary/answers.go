package summary

import (
	"context"
	"errors"
	"fmt"
	"sync"

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

// answers fetches once for each pass and view.
type answers struct {
	source  *Source
	fetches sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// running is the number of the current pass.
	running uint64
	// begun holds the views of the current and the previous pass, which a late Measure may still
	// ask for; nil if not fetched.
	begun map[eviction.PassView]*answer
}

// begin allows fetching for at.
func (a *answers) begin(at eviction.PassView) {
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
func (a *answers) get(ctx context.Context, at eviction.PassView) ([]byte, error) {
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
func (a *answers) find(ctx context.Context, at eviction.PassView) (*answer, error) {
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
func (a *answers) fetch(ctx context.Context) *answer {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	started := &answer{done: make(chan struct{}), stop: stop}
	a.fetches.Go(func() {
		defer stop(nil)
		defer close(started.done)
		summary, err := a.source.Fetch(ctx)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		started.summary, started.err = summary, err
	})
	return started
}

// close cancels all fetches with errClosed and waits for them.
func (a *answers) close() {
	a.mu.Lock()
	a.closed = true
	for _, answer := range a.begun {
		answer.end(errClosed)
	}
	a.mu.Unlock()
	a.fetches.Wait()
}

// end cancels the answer's fetch, if there is one.
func (a *answer) end(cause error) {
	if a != nil {
		a.stop(cause)
	}
}
