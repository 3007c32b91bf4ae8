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
	// errNotRun is the refusal of a pass and view that the host has not begun, or begun
	// too long ago.
	errNotRun = errors.New("the host does not run it now")
)

// An answer is on its way until done is closed. Its summary and err are there
// then, and they are not changed.
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
	// running is the number of the pass that runs.
	running uint64
	// begun has what the host has begun in that pass and in the one before, of which a
	// late Measure may still ask; nil for what was not asked for.
	begun map[eviction.PassView]*answer
}

// begin allows at to be asked.
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

// get returns the answer for at, or ctx's error when the caller gives up, which is
// nothing to the others that wait.
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

// find returns the answer for at, which may be on its way. Only the running pass
// fetches: what comes now is not what a former one would have had.
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

// fetch starts a fetch that no caller owns: it goes on when the first caller
// gives up. It returns at once.
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

// close ends what is under way with errClosed and waits for it.
func (a *answers) close() {
	a.mu.Lock()
	a.closed = true
	for _, answer := range a.begun {
		answer.end(errClosed)
	}
	a.mu.Unlock()
	a.fetches.Wait()
}

// end ends the fetch of an answer that was asked for.
func (a *answer) end(cause error) {
	if a != nil {
		a.stop(cause)
	}
}
