package sdk_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/evictd/evictd/sdk"
)

func TestAValueIsClosedWhenItIsReplacedAndReleased(t *testing.T) {
	var current sdk.Current[string]
	if _, err := current.Hold(); !errors.Is(err, sdk.ErrNotConfigured) {
		t.Fatalf("before the first value: %v", err)
	}
	closed := map[string]bool{}
	set := func(value string) { current.Set(value, func() { closed[value] = true }) }
	set("a")
	call, err := current.Hold()
	if err != nil || call.Value != "a" {
		t.Fatalf("held %+v, %v", call, err)
	}
	call.Hold() // for what goes on after the call
	select {
	case <-call.Replaced():
		t.Error("replaced while it is in force")
	default:
	}
	set("b")
	<-call.Replaced()
	call.Release()
	if closed["a"] {
		t.Error("closed while it is held")
	}
	call.Release()
	if !closed["a"] || closed["b"] {
		t.Errorf("closed %v, want the former one alone", closed)
	}
	set("c")
	if !closed["b"] {
		t.Error("not closed, which nobody held")
	}
}

func TestAValueIsNeverClosedInACall(t *testing.T) {
	var current sdk.Current[*atomic.Bool]
	set := func() {
		closed := new(atomic.Bool)
		current.Set(closed, func() { closed.Store(true) })
	}
	set()
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 1000 {
				h, err := current.Hold()
				if err != nil || h.Value.Load() {
					t.Errorf("held a closed value, %v", err)
					return
				}
				h.Release()
			}
		})
	}
	for range 1000 {
		set()
	}
	calls.Wait()
}
