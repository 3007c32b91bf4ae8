package observe

import (
	"log/slog"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// A Contradiction reports that two observers of a signal have disagreed for a while, with their
// last figures.
type Contradiction struct {
	policy.Contradiction

	Figures []ClaimStatus `json:"figures"`
}

// A ClaimStatus is one observer's figure for a signal that several observe.
type ClaimStatus struct {
	ObservedBy string `json:"observedBy"`
	State      string `json:"state"`
	Available  int64  `json:"available"`
	Capacity   int64  `json:"capacity"`
}

// next records the figures of a signal at now, and logs when a custom observer starts or stops
// contradicting the one asked beside it.
func (c *Contradiction) next(now time.Time, s eviction.Signal, thresholds []policy.Threshold, claims []policy.Claim, log *slog.Logger, m Metrics) {
	before := c.Contradiction
	n := slices.IndexFunc(claims, func(f policy.Claim) bool { return f.Custom })
	with := slices.IndexFunc(claims, func(f policy.Claim) bool { return !f.Custom && f.State != eviction.Unknown })
	if n < 0 || with < 0 {
		if len(claims) == 0 && before != (policy.Contradiction{}) { // no plugin is asked beside another any more
			*c = Contradiction{}
			m.Contradicted(s, false)
		}
		return
	}
	custom, other := claims[n], claims[with]
	yes, known := policy.Contradict(thresholds, custom.Observation, other.Observation)
	if !known {
		return
	}
	after := before.Next(now, yes)
	*c = Contradiction{after, []ClaimStatus{claimStatus(custom), claimStatus(other)}}
	m.Contradicted(s, after.Lasting)
	switch {
	case after.Lasting && !before.Lasting:
		log.Warn("observers contradict each other, the worse figure counts", "signal", s, "plugin", custom.By, "says", saying(custom), "against", other.By, "which says", saying(other))
	case before.Lasting && !after.Lasting:
		log.Info("observers agree again", "signal", s, "plugin", custom.By, "with", other.By)
	}
}

func saying(f policy.Claim) slog.Value {
	if f.State != eviction.Observed {
		return slog.StringValue(decision.StateName(f.State))
	}
	return slog.GroupValue(slog.Int64("available", f.Available), slog.Int64("capacity", f.Capacity))
}

func claimStatus(f policy.Claim) ClaimStatus {
	return ClaimStatus{f.By, decision.StateName(f.State), f.Available, f.Capacity}
}
