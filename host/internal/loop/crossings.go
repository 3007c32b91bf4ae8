package loop

import (
	"log/slog"
	"slices"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// crossings is how thresholds stood in the last pass.
type crossings struct {
	// met are those that were logged as met.
	met map[policy.Key]bool
	// standing are those that were met by what was observed when they were last looked
	// at. What is frozen as met, or in its grace period again, is no reason to evict.
	standing map[policy.Key]bool
}

// note logs thresholds that came to be met, or ceased to be.
func (c *crossings) note(log *slog.Logger, p *pass) {
	met := make(map[policy.Key]bool, len(p.assessment.Observed))
	for _, o := range p.assessment.Observed {
		t, seen := o.Threshold, p.seen.Observations[o.Signal]
		met[t.Key()] = true
		if !c.met[t.Key()] {
			log.Info("threshold met", "signal", t.Signal, "threshold", t.Value.String(), "available", seen.Available,
				"capacity", seen.Capacity, "hard", t.Hard(), "gracePeriod", t.GracePeriod.String(), "trigger", p.trigger(), "cause", p.scope.Causes())
		}
	}
	graceOver := keysOf(p.assessment.Met)
	for _, t := range p.seen.Thresholds {
		seen, ok := p.seen.Observations[t.Signal]
		if c.met[t.Key()] && !met[t.Key()] {
			log.Info("threshold satisfied", "signal", t.Signal, "threshold", t.Value.String(), "available", seen.Available)
		}
		if ok || slices.Contains(p.seen.Asked, t.Signal) {
			c.standing[t.Key()] = seen.State == eviction.Observed && graceOver[t.Key()]
		}
	}
	c.met = met
}
