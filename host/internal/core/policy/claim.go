package policy

import (
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A Claim is the figure of one of several observers of a signal.
type Claim struct {
	eviction.Observation
	// By names the source; Custom: it is neither the built-in plugin nor the host itself.
	By     string
	Custom bool
}

// sampler returns the source whose samples are compared with each other: the built-in plugin and
// the host are one source.
func (f Claim) sampler() sampler {
	if f.Custom {
		return sampler{f.Signal, f.By}
	}
	return sampler{signal: f.Signal}
}

// Count puts the figure that counts first, for one signal. figures are in descending order of
// trust, custom observers before the built-in one. A figure is taken with its capacity.
//
// A figure below more of the thresholds counts first, hard ones before soft ones; then one newer
// than its observer's last, since older ones are not acted on; then the least available. Without
// any figure the last report counts: that the signal is absent is no argument against an observer
// that could not look.
func (s State) Count(thresholds []Threshold, figures []Claim) {
	best := len(figures) - 1
	for i := best - 1; i >= 0; i-- {
		if s.worse(thresholds, figures[i], figures[best]) {
			best = i
		}
	}
	if best > 0 {
		counts := figures[best]
		copy(figures[1:best+1], figures[:best])
		figures[0] = counts
	}
}

// worse reports whether f counts rather than g, which is more trusted.
func (s State) worse(thresholds []Threshold, f, g Claim) bool {
	if f.State != eviction.Observed || g.State != eviction.Observed {
		return f.State == eviction.Observed
	}
	if a, b := severity(thresholds, f.Observation), severity(thresholds, g.Observation); a != b {
		return a > b
	}
	if a, b := s.fresh(f.sampler(), f.Observation), s.fresh(g.sampler(), g.Observation); a != b {
		return a
	}
	return f.Available < g.Available
}

// severity returns a greater number for a figure below thresholds of more weight: hard before soft,
// and then with the minimum reclaim added.
func severity(thresholds []Threshold, o eviction.Observation) int {
	severe := 0
	for _, t := range thresholds {
		if t.Signal != o.Signal {
			continue
		}
		weight := 1
		if t.Hard() {
			weight = 2
		}
		if t.met(o, true) {
			severe |= weight
		}
		if t.met(o, false) {
			severe |= weight << 2
		}
	}
	return severe
}

// aboutTheSame is the fraction of the capacity by which two figures sampled at different moments
// may differ.
const aboutTheSame = 100

// Contradict reports whether two observers of a signal contradict each other: one of
// them has no figure, or other thresholds are met, or the figures are far apart. known is
// false if one of them could not look.
func Contradict(thresholds []Threshold, a, b eviction.Observation) (yes, known bool) {
	if a.State == eviction.Unknown || b.State == eviction.Unknown {
		return false, false
	}
	if a.State != b.State || a.State == eviction.Absent {
		return a.State != b.State, true
	}
	apart := func(x, y int64) bool {
		most := float64(max(a.Capacity, b.Capacity)) / aboutTheSame
		return float64(max(x, y))-float64(min(x, y)) > most
	}
	return severity(thresholds, a) != severity(thresholds, b) || apart(a.Available, b.Available) || apart(a.Capacity, b.Capacity),
		true
}

// sampler is one source of samples of a signal: a custom plugin beside another source,
// or another plugin that observes it.
type sampler struct {
	signal eviction.Signal
	custom string
}

// counted returns the source of the figure of s that counts.
func (in Input) counted(s eviction.Signal) sampler {
	if f := in.Claims[s]; len(f) > 0 {
		return f[0].sampler()
	}
	return sampler{signal: s}
}

// others returns the figures that do not count.
func (in Input) others() []Claim {
	var all []Claim
	for _, f := range in.Claims {
		all = append(all, f[min(1, len(f)):]...)
	}
	return all
}

const (
	// lastingFor and lastingLooks bound when a contradiction of two observers is reported, or over:
	// figures of different moments differ now and then.
	lastingFor   = time.Minute
	lastingLooks = 3
)

// A Contradiction tracks whether two observers of a signal agree. The zero value means that they
// do.
type Contradiction struct {
	// Lasting: they contradict each other, and have for a while.
	Lasting bool `json:"-"`
	// Since is the first of the consecutive looks with this state.
	Since time.Time `json:"since"`
	// turned is since when, and for how many consecutive looks, the opposite has held.
	turned time.Time
	looks  int
}

// Next returns c after another look.
func (c Contradiction) Next(now time.Time, contradict bool) Contradiction {
	if contradict == c.Lasting {
		c.turned, c.looks = time.Time{}, 0
		return c
	}
	if c.looks == 0 || now.Before(c.turned) { // a clock that was set back starts over
		c.turned, c.looks = now, 0
	}
	c.looks++
	if c.looks < lastingLooks || now.Sub(c.turned) < lastingFor {
		return c
	}
	return Contradiction{Lasting: contradict, Since: c.turned}
}
