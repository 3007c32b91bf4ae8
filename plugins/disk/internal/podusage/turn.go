package podusage

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/hang"
)

// hangsAfter is how long a filesystem is waited for that does not answer. It is a
// few times what a healthy one is given to do at a time.
const hangsAfter = time.Second

var (
	// errLate: there was no time to look.
	errLate = errors.New("not looked at in time")
	// errHangs: a filesystem keeps its caller waiting, as one whose server is away.
	errHangs = errors.New("its filesystem does not answer")
)

// bounded does f. When hangsAfter is over or stop ends first, f is left behind, and
// late is called at its end.
func bounded[T any](stop context.Context, f func() T, late func()) (T, error) {
	ctx, cancel := context.WithTimeout(stop, hangsAfter)
	defer cancel()
	r, err := hang.Do(ctx.Done(), func() (T, error) { return f(), nil }, late)
	return r, whyLate(stop, err)
}

// guard is bounded for a pod, unless something else hangs that was done for it.
func guard[T any](stop context.Context, hanging *hang.Left, uid string, f func() T) (T, error) {
	if stop.Err() != nil {
		return *new(T), errLate
	}
	ctx, cancel := context.WithTimeout(stop, hangsAfter)
	defer cancel()
	r, err := hang.DoAs(hanging, uid, ctx.Done(), func() (T, error) { return f(), nil })
	return r, whyLate(stop, err)
}

func whyLate(stop context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case stop.Err() != nil:
		return errLate
	default:
		return errHangs
	}
}

// A turn is had by one goroutine at a time.
type turn struct {
	slot  hang.Slot
	since atomic.Pointer[time.Time] // nil while nobody has it
}

func newTurn() *turn { return &turn{slot: hang.NewSlot()} }

// take waits for the turn, but not for one that somebody has who hangs.
func (t *turn) take(ctx context.Context) error {
	if t.try() {
		return nil
	}
	if t.stuck() {
		return errHangs
	}
	timer := time.NewTimer(hangsAfter)
	defer timer.Stop()
	select {
	case t.slot <- struct{}{}:
		t.taken()
		return nil
	case <-timer.C:
		return errHangs
	case <-ctx.Done():
		return errLate
	}
}

// try takes the turn if nobody has it.
func (t *turn) try() bool {
	select {
	case t.slot <- struct{}{}:
		t.taken()
		return true
	default:
		return false
	}
}

func (t *turn) taken() {
	now := time.Now()
	t.since.Store(&now)
}

func (t *turn) give() {
	t.since.Store(nil)
	<-t.slot
}

// stuck reports whether somebody has had the turn for longer than anybody needs it.
func (t *turn) stuck() bool {
	since := t.since.Load()
	return since != nil && time.Since(*since) >= hangsAfter
}
