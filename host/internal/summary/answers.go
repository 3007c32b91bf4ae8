package summary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

// keptPasses is for how many passes answers are kept, the running one included:
// a late Measure of the former one may still ask.
const keptPasses = 2

var (
	errClosed = errors.New("the host stops")
	// errNotRun is the refusal of a pass and view that the host has not begun, or begun
	// too long ago.
	errNotRun = errors.New("the host does not run it now")
)

// An answer is on its way until done is closed. Its summary and err are there
// then, and nobody changes them.
type answer struct {
	done    chan struct{}
	stop    context.CancelCauseFunc
	summary []byte
	err     error
}

// answers fetches once for each pass and view.
type answers struct {
	source  Source
	fetches sync.WaitGroup

	mu     sync.Mutex
	closed bool
	passes []answeredPass // the running one last
}

// answeredPass has the views that the host has begun, nil for one that nobody has
// asked for.
type answeredPass struct {
	number uint64
	views  map[eviction.View]*answer
}

// begin allows at to be asked.
func (a *answers) begin(at eviction.PassView) {
	a.mu.Lock()
	defer a.mu.Unlock()
	running := len(a.passes) - 1
	if running < 0 || a.passes[running].number != at.Pass {
		a.passes = append(a.passes, answeredPass{number: at.Pass, views: make(map[eviction.View]*answer, 2)})
		if len(a.passes) > keptPasses {
			a.passes[0].stop(errNotRun)
			a.passes = slices.Delete(a.passes, 0, 1)
		}
		running = len(a.passes) - 1
	}
	if views := a.passes[running].views; views[at.View] == nil {
		views[at.View] = nil
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
	if a.closed {
		return nil, errClosed
	}
	i := slices.IndexFunc(a.passes, func(p answeredPass) bool { return p.number == at.Pass })
	if i < 0 {
		return nil, errNotRun
	}
	found, begun := a.passes[i].views[at.View]
	switch {
	case found != nil:
		return found, nil
	case !begun || i < len(a.passes)-1:
		return nil, errNotRun
	}
	found = a.fetch(ctx)
	a.passes[i].views[at.View] = found
	return found, nil
}

// fetch starts a fetch that is nobody's own: it goes on when who asked first
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
	for _, p := range a.passes {
		p.stop(errClosed)
	}
	a.mu.Unlock()
	a.fetches.Wait()
}

func (p answeredPass) stop(cause error) {
	for _, v := range p.views {
		if v != nil {
			v.stop(cause)
		}
	}
}
