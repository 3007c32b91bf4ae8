package loop

import (
	"log/slog"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/metrics"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// contradictions are how custom observers stand to those that were asked beside them.
type contradictions struct {
	bySignal map[eviction.Signal]contradiction
	log      *slog.Logger
	metrics  *metrics.Metrics
}

type contradiction struct {
	policy.Contradiction
	// custom and other are what was said last.
	custom, other policy.Claim
}

// note takes note of what was said of the asked signals at now.
func (c *contradictions) note(now time.Time, thresholds []policy.Threshold, asked []eviction.Signal, claims map[eviction.Signal][]policy.Claim) {
	for _, s := range asked {
		custom, other, ok := pair(claims[s])
		before, had := c.bySignal[s]
		if !ok {
			if had && len(claims[s]) == 0 { // nobody is asked beside another any more
				c.forget(s)
			}
			continue
		}
		yes, known := policy.Contradict(thresholds, custom.Observation, other.Observation)
		if !known {
			continue
		}
		after := contradiction{before.Next(now, yes), custom, other}
		c.bySignal[s] = after
		c.metrics.Contradicted(s, after.Lasting)
		switch {
		case after.Lasting && !before.Lasting:
			c.log.Warn("observers contradict each other, the worse figure counts", "signal", s, "plugin", custom.By, "says", saying(custom), "against", other.By, "which says", saying(other))
		case before.Lasting && !after.Lasting:
			c.log.Info("observers agree again", "signal", s, "plugin", custom.By, "with", other.By)
		}
	}
}

// forget ends what was told of a signal that only one is asked about now.
func (c *contradictions) forget(s eviction.Signal) {
	delete(c.bySignal, s)
	c.metrics.Contradicted(s, false)
}

// pair is the first custom figure and the one that it is held against.
func pair(figures []policy.Claim) (custom, other policy.Claim, ok bool) {
	n := slices.IndexFunc(figures, func(f policy.Claim) bool { return f.Custom })
	m := slices.IndexFunc(figures, func(f policy.Claim) bool { return !f.Custom && f.State != eviction.Unknown })
	if n < 0 || m < 0 {
		return policy.Claim{}, policy.Claim{}, false
	}
	return figures[n], figures[m], true
}

func saying(f policy.Claim) slog.Value {
	if f.State != eviction.Observed {
		return slog.StringValue(stateName(f.State))
	}
	return slog.GroupValue(slog.Int64("available", f.Available), slog.Int64("capacity", f.Capacity))
}

// A Contradiction is that two observers of a signal have said different things for a
// while. Those are the figures of last time.
type Contradiction struct {
	Since   time.Time     `json:"since"`
	Figures []ClaimStatus `json:"figures"`
}

// A ClaimStatus is what one of several observers says of a signal.
type ClaimStatus struct {
	ObservedBy string `json:"observedBy"`
	State      string `json:"state"`
	Available  int64  `json:"available"`
	Capacity   int64  `json:"capacity"`
}

// status is what is to be told of s, nil for nothing.
func (c *contradictions) status(s eviction.Signal) *Contradiction {
	d := c.bySignal[s]
	if !d.Lasting {
		return nil
	}
	out := &Contradiction{Since: d.Since}
	for _, f := range []policy.Claim{d.custom, d.other} {
		out.Figures = append(out.Figures, ClaimStatus{f.By, stateName(f.State), f.Available, f.Capacity})
	}
	return out
}
