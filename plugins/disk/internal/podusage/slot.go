package podusage

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/hang"
)

// hangsAfter limits the wait for a filesystem that does not answer. It is several times the time
// that one step on a healthy filesystem takes.
const hangsAfter = time.Second

var (
	// errLate means that the time was over before it was measured.
	errLate = errors.New("not looked at in time")
	// errHangs means that a filesystem does not answer, for example because its server is away.
	errHangs = errors.New("its filesystem does not answer")
)

// bounded calls f. If hangsAfter passes or stop ends first, it leaves f behind; late is called
// when f returns.
func bounded[T any](stop context.Context, f func() T, late func()) (T, error) {
	ctx, cancel := context.WithTimeout(stop, hangsAfter)
	defer cancel()
	r, err := hang.Do(ctx.Done(), func() (T, error) { return f(), nil }, late)
	return r, whyLate(stop, err)
}

// guard is like bounded for a pod, but fails if an earlier call for the pod still hangs.
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

// take waits for the slot, unless its holder hangs.
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

// stuck reports whether the slot has been held for longer than any step takes.
func (s *slot) stuck() bool {
	since := s.since.Load()
	return since != nil && time.Since(*since) >= hangsAfter
}
