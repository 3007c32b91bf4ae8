package podusage

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/hang"
)

// hangsAfter bounds the wait for a filesystem that does not answer. It is a few times what a
// healthy one is given to do at a time.
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
	case errors.Is(err, hang.ErrHangs):
		return errHangs
	default:
		return err
	}
}

// A slot is held by one goroutine at a time.
type slot struct {
	token hang.Slot
	since atomic.Pointer[time.Time] // nil while it is free
}

func newSlot() *slot { return &slot{token: hang.NewSlot()} }

// take waits for the slot, but not for one whose holder hangs.
func (s *slot) take(ctx context.Context) error {
	if s.try() {
		return nil
	}
	if s.stuck() {
		return errHangs
	}
	timer := time.NewTimer(hangsAfter)
	defer timer.Stop()
	select {
	case s.token <- struct{}{}:
		s.taken()
		return nil
	case <-timer.C:
		return errHangs
	case <-ctx.Done():
		return errLate
	}
}

// try takes the slot if it is free.
func (s *slot) try() bool {
	select {
	case s.token <- struct{}{}:
		s.taken()
		return true
	default:
		return false
	}
}

func (s *slot) taken() {
	now := time.Now()
	s.since.Store(&now)
}

func (s *slot) give() {
	s.since.Store(nil)
	<-s.token
}

// stuck reports whether the slot has been held for longer than any walk needs it.
func (s *slot) stuck() bool {
	since := s.since.Load()
	return since != nil && time.Since(*since) >= hangsAfter
}
