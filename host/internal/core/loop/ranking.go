package loop

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// NoThreshold returns an ErrNoThreshold that says which signals have one.
func NoThreshold(s eviction.Signal, inForce []decision.Threshold) error {
	signals := map[string]bool{}
	for i := range inForce {
		signals[string(inForce[i].Signal)] = true
	}
	return fmt.Errorf("%w: %q, want one of %s", ErrNoThreshold, s, strings.Join(slices.Sorted(maps.Keys(signals)), ", "))
}

// Ranking returns the decision that would be made now if a threshold of the signal were acted on.
// It measures and ranks pods outside of passes, which do not wait for it, and uses the observations
// of the last pass. It may be called from anywhere.
func Ranking(ctx context.Context, l *Loop, s eviction.Signal) (d *decision.Decision, err error) {
	if err := l.Reentered(); err != nil {
		return nil, err
	}
	var r choose.Request
	var pin *registry.Pin
	configured := false
	if ended := call(l.calls, ctx.Done(), l.ended, func(context.Context) {
		pin = l.pin()
		inForce, observed, now := l.observer.Thresholds.InForce(), l.observer.Latest(), time.Now()
		stood := l.state.Stood(inForce)
		d = newDecision(l, inForce, observed, &stood, l.options.Now())
		d.ID, d.Kind, d.Time, d.Pass = decision.NewID(now), decision.KindRanking, now.Round(0), l.passes
		for _, w := range l.victims.Relief.Waiting() {
			if w.Signal == s {
				d.Reason = decision.Waits(w)
			}
		}
		var t policy.Threshold
		if t, configured = l.observer.Thresholds.Of(s); configured {
			d.Act(t)
			r = request(l, t, observed[s], eviction.PassView{Pass: l.passes, View: eviction.ViewBefore})
		}
	}); ended != nil {
		return nil, cmp.Or(ctx.Err(), ended)
	}
	defer pin.Release()
	if !configured {
		return nil, NoThreshold(s, d.Thresholds)
	}
	choice := l.chooser.Choose(ctx, pin, r)
	if choice.Err != nil {
		return nil, fmt.Errorf("pods are not known: %w", choice.Err)
	}
	if len(choice.Order) == 0 && d.Reason == "" {
		d.Reason = choice.WhyNobody(r.Ending)
	}
	choice.Enter(d, s)
	return d, nil
}
