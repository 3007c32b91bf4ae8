package answers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A question is what a test's Input asks: it takes some time, and fails with some error.
type question struct {
	takes time.Duration
	err   error
	calls atomic.Int32
}

func (q *question) ask(ctx context.Context) (int32, error) {
	n := q.calls.Add(1)
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(q.takes):
		return n, q.err
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestTheLastAnswerStandsUntilANewOneComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &question{takes: time.Second}
		i := New("number", time.Minute, q.ask)
		defer i.Close()
		if a := i.Get(within(t, 2*time.Second), time.Now()); a.Err != nil || a.Value != 1 {
			t.Fatal(a)
		}
		q.takes = 6 * time.Second
		if a := i.Get(within(t, time.Second), time.Now()); !errors.Is(a.Err, ErrLate) || a.Value != 1 || time.Since(a.Asked) != 2*time.Second {
			t.Errorf("%+v, want the answer of 2 s ago", a)
		}
		asked := time.Now().Add(-time.Second)
		if a := i.Get(within(t, 6*time.Second), asked); a.Err != nil || a.Value != 2 || q.calls.Load() != 2 {
			t.Errorf("%+v after %d calls, want the answer to the call under way", a, q.calls.Load())
		}
		q.err = errors.New("broken")
		if a := i.Get(within(t, time.Minute), time.Now()); !errors.Is(a.Err, q.err) || a.Value != 2 {
			t.Errorf("%+v, want the last answer and the error", a)
		}
	})
}

func TestAnAnswerIsNotOlderThanAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &question{takes: time.Second}
		i := New("number", time.Minute, q.ask)
		defer i.Close()
		i.Get(within(t, time.Millisecond), time.Now()) // leaves a call under way
		began := time.Now()
		if a := i.Get(within(t, time.Minute), began); a.Err != nil || a.Value != 2 || a.Asked.Before(began) {
			t.Errorf("%+v, want that of a second call", a)
		}
		q.err = errors.New("broken")
		i.Get(within(t, time.Millisecond), time.Now())
		time.AfterFunc(time.Second/2, func() { q.err = nil })
		if a := i.Get(within(t, time.Minute), began); a.Value != 2 || a.Err != nil {
			t.Errorf("%+v, want the one that is new enough", a)
		}
	})
}

func TestAllWhoAskShareOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &question{takes: time.Second}
		i := New("number", time.Minute, q.ask)
		defer i.Close()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if a := i.Get(within(t, 2*time.Second), time.Now()); a.Err != nil {
					t.Error(a.Err)
				}
			})
		}
		all.Wait()
		if n := q.calls.Load(); n != 1 {
			t.Errorf("%d calls, want one", n)
		}
	})
}

func TestARefusalIsRememberedForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &question{err: Refused(errors.New("too large"))}
		i := New("number", time.Minute, q.ask)
		defer i.Close()
		for range 10 {
			if a := i.Get(within(t, time.Second), time.Now()); a.Known() || !IsRefused(a.Err) || a.Err.Error() != "number: too large" {
				t.Fatal(a)
			}
			time.Sleep(5 * time.Second)
		}
		time.Sleep(15 * time.Second)
		q.err = nil
		if a := i.Get(within(t, time.Second), time.Now()); a.Err != nil || q.calls.Load() != 2 {
			t.Errorf("%+v after %d calls, want an answer to the second one", a, q.calls.Load())
		}
	})
}

func TestCloseEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &question{takes: time.Hour}
		i := New("number", time.Hour, q.ask)
		i.Get(within(t, time.Second), time.Now())
		began := time.Now()
		i.Close()
		if a := i.Get(t.Context(), time.Now()); a.Err == nil || q.calls.Load() != 1 || time.Since(began) != 0 {
			t.Errorf("%+v, %d calls, want no further one", a, q.calls.Load())
		}
	})
}
