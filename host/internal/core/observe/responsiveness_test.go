package observe

import (
	"context"
	"testing"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// A plugin that had answered nothing in time was asked again, and waited for, as soon as a
// pass had looked at another one's signal.
func TestWhoDoesNotRespondIsNotForgottenForOthers(t *testing.T) {
	current := registry.NewCurrent()
	hangs, works := registry.NewInstance("disk", 1, 1, &eviction.Plugin{}), registry.NewInstance("memory", 2, 2, &eviction.Plugin{})
	current.Publish(registry.New([]registry.Plugin{{Name: "disk", Instance: hangs}, {Name: "memory", Instance: works}}, nil))
	var r Responsiveness
	r.observed(map[*registry.Instance]error{hangs: context.DeadlineExceeded, works: nil})
	_ = r.Measure(t.Context(), hangs, 0, func(context.Context) error { return context.DeadlineExceeded })
	r.observed(map[*registry.Instance]error{works: nil})
	if !r.Unresponsive(hangs) || r.Unresponsive(works) {
		t.Errorf("unresponsive: %v who hangs, %v who works", r.Unresponsive(hangs), r.Unresponsive(works))
	}
	r.observed(map[*registry.Instance]error{hangs: nil})
	if r.Unresponsive(hangs) {
		t.Error("who has answered since is still not asked")
	}
	r.observed(map[*registry.Instance]error{hangs: context.DeadlineExceeded})
	current.Publish(registry.New(nil, nil))
	r.observed(nil)
	if len(r.missed) != 0 {
		t.Errorf("%d that have ended are remembered", len(r.missed))
	}
}
