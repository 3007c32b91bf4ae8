package loop

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/choose"
	"github.com/evictd/evictd/host/internal/recorder"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// Ranking is what would be decided now if a threshold of the signal were acted on: pods are
// measured and put in order beside the passes, none of which waits for that. The node is
// as the last pass has seen it. It may be called from anywhere.
func Ranking(ctx context.Context, l *Loop, s eviction.Signal) (p recorder.Pass, err error) {
	if err := l.Reentered(); err != nil {
		return p, err
	}
	var r choose.Request
	var pin *registry.Pin
	if ended := call(l.calls, ctx.Done(), l.ended, func(context.Context) {
		pin = l.pin()
		thresholds := l.observer.Thresholds
		p = inForce(l)
		p.Number, p.Observed, p.Now, p.Waiting = l.passes, time.Now(), l.Now(), l.victims.Relief.Waiting()
		p.Thresholds, p.Observations, p.Assessment = thresholds.InForce(), l.observer.Latest(), l.state.Stood(thresholds.InForce())
		if t, ok := thresholds.Of(s); ok {
			p.Acted = &t
			r = request(l, t, p.Observations[s], eviction.PassView{Pass: l.passes, View: eviction.ViewBefore})
		}
	}); ended != nil {
		return p, cmp.Or(ctx.Err(), ended)
	}
	defer pin.Release()
	if p.Acted == nil {
		signals := map[string]bool{}
		for _, t := range p.Thresholds {
			signals[string(t.Signal)] = true
		}
		return p, fmt.Errorf("%w: %q, want one of %s", ErrNoThreshold, s, strings.Join(slices.Sorted(maps.Keys(signals)), ", "))
	}
	p.Choice = l.chooser.Choose(ctx, pin, r)
	if p.Choice.Err != nil {
		return p, fmt.Errorf("pods are not known: %w", p.Choice.Err)
	}
	if len(p.Choice.Order) == 0 {
		p.Nobody = p.Choice.WhyNobody(r.Ending)
	}
	return p, nil
}
