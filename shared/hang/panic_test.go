package hang

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

// A panic of a walk ended the process, with all that others do in it.
func TestAPanicIsTheErrorOfACall(t *testing.T) {
	got, err := Do(nil, func() (int, error) { panic("no such mount") }, nil)
	if got != 0 || err == nil || !strings.Contains(err.Error(), "panic: no such mount") || errors.Is(err, ErrHangs) {
		t.Errorf("got %d, %v, want the panic as an error", got, err)
	}
	slot := NewSlot()
	for range 2 { // the slot is free again
		if _, err := DoIn(slot, nil, func() (int, error) { panic("again") }); err == nil || !strings.Contains(err.Error(), "again") {
			t.Errorf("in a slot: %v", err)
		}
	}
}

func TestAGroupHandsAPanicOn(t *testing.T) {
	var g Group
	var ran atomic.Int32
	for range 5 {
		g.Go(func() { ran.Add(1) })
	}
	g.Wait()
	if ran.Load() != 5 {
		t.Errorf("%d have run, want 5", ran.Load())
	}
	g.Go(func() { walkedIntoNil() })
	g.Go(func() { ran.Add(1) })
	p := Catch(func() {
		var outer Group
		outer.Go(g.Wait)
		outer.Wait()
	})
	if p == nil || p.Value != "walked into nil" || !strings.Contains(p.Error(), "walkedIntoNil") || ran.Load() != 6 {
		t.Errorf("caught %v after %d, want the panic with the stack of where it was, and the other function done", p, ran.Load())
	}
	if p := Catch(func() {}); p != nil {
		t.Errorf("caught %v of no panic", p)
	}
}

func walkedIntoNil() { panic("walked into nil") }
