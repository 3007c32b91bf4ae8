package hang

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a call that hangs until something is sent.
func slow(back <-chan struct{}) func() (int, error) {
	return func() (int, error) { <-back; return 1, nil }
}

func quick() (int, error) { return 7, errors.ErrUnsupported }

// within gives a call a second.
func within[T any](t *testing.T, call func(late <-chan struct{}) (T, error)) (T, time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	value, err := call(ctx.Done())
	return value, time.Since(began), err
}

func TestACallThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back, ended := make(chan struct{}), 0
		_, took, err := within(t, func(late <-chan struct{}) (int, error) { return Do(late, slow(back), func() { ended++ }) })
		if !errors.Is(err, ErrHangs) || took != time.Second || ended != 0 {
			t.Errorf("%v after %v, ended %d times; want that it hangs after a second", err, took, ended)
		}
		close(back)
		synctest.Wait()
		if ended != 1 {
			t.Errorf("ended %d times after it came back, want once", ended)
		}
		got, took, err := within(t, func(late <-chan struct{}) (int, error) { return Do(late, quick, func() { ended++ }) })
		if got != 7 || !errors.Is(err, errors.ErrUnsupported) || took != 0 || ended != 1 {
			t.Errorf("a call that answers: %d, %v after %v, ended %d times", got, err, took, ended)
		}
	})
}

func TestWhoHangsKeepsHisSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slot, back := NewSlot(), make(chan struct{})
		for range 3 {
			if _, took, err := within(t, func(late <-chan struct{}) (int, error) { return DoIn(slot, late, slow(back)) }); !errors.Is(err, ErrHangs) || took != time.Second {
				t.Errorf("%v after %v, want that it hangs", err, took)
			}
		}
		close(back)
		synctest.Wait()
		if got, _, err := within(t, func(late <-chan struct{}) (int, error) { return DoIn(slot, late, quick) }); got != 7 {
			t.Errorf("%d, %v after it came back, want an answer", got, err)
		}
	})
}

func TestWhatHangsIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Left
		back := make(chan struct{})
		as := func(name string, call func() (int, error)) (int, time.Duration, error) {
			return within(t, func(late <-chan struct{}) (int, error) { return DoAs(&l, name, late, call) })
		}
		if _, took, err := as("a", slow(back)); !errors.Is(err, ErrHangs) || took != time.Second {
			t.Errorf("%v after %v, want that it hangs", err, took)
		}
		if _, took, err := as("a", quick); !errors.Is(err, ErrHangs) || took != 0 {
			t.Errorf("%v after %v, want that nobody waits for it again", err, took)
		}
		if got, _, err := as("b", quick); got != 7 {
			t.Errorf("another name: %d, %v", got, err)
		}
		close(back)
		synctest.Wait()
		if got, _, err := as("a", quick); got != 7 || len(l.calls) != 0 {
			t.Errorf("%d, %v after it came back, and %v is remembered", got, err, l.calls)
		}
		if _, _, err := as("a", func() (int, error) { return 0, ErrHangs }); !errors.Is(err, ErrHangs) || len(l.calls) != 0 {
			t.Errorf("%v, and %v is remembered of a call that returned by itself", err, l.calls)
		}
	})
}

func TestNoCallWaitsForAFilesystemThatHangs(t *testing.T) {
	var l Left
	hangs, begun, late := make(chan struct{}), make(chan struct{}), make(chan struct{})
	read := func(late chan struct{}) error {
		_, err := DoAs(&l, "a", late, func() (int, error) {
			close(begun)
			<-hangs
			return 0, nil
		})
		return err
	}
	go func() {
		<-begun
		close(late)
	}()
	if err := read(late); !errors.Is(err, ErrHangs) {
		t.Errorf("one that hangs: %v", err)
	}
	if err := read(nil); !errors.Is(err, ErrHangs) { // would close begun again
		t.Errorf("while it hangs: %v", err)
	}
	quick := func(name string) (int, error) { return DoAs(&l, name, nil, quick) }
	if got, err := quick("b"); got != 7 || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("another file: %v, %v", got, err)
	}
	close(hangs)
	for {
		if got, err := quick("a"); !errors.Is(err, ErrHangs) {
			if got != 7 || !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("once it answers: %v, %v", got, err)
			}
			break
		}
	}
	for range 1000 { // what has answered is over
		if _, err := quick("a"); errors.Is(err, ErrHangs) {
			t.Fatal("a former one is still open after its answer")
		}
	}
}
