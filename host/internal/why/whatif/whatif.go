package whatif

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
)

// The parts of a decision that can be varied, beside the request: see Advise.
const (
	Priority   = "priority"
	MinReclaim = "minReclaim"
)

// mostRequest and mostPriority bound the search: higher requests do not exist, and a higher priority
// makes a pod critical (scheduling.HighestUserDefinablePriority).
const (
	mostRequest  = 1 << 60
	mostPriority = 1_000_000_000
)

// A Change is the smallest change of one value that would have spared the victim: one step less
// would not.
type Change struct {
	// What is one of the names above; Of names its threshold.
	What string `json:"change"`
	Of   string `json:"of,omitempty"`
	// Value is in the signal's unit, or a priority; Step is its smallest step.
	Value int64 `json:"value"`
	Step  int64 `json:"step"`
	// NextVictim names the pod that would have been evicted, empty for none.
	NextVictim string `json:"instead,omitempty"`
}

// Changes returns the changes that would have spared the victim of a record for as long as the pressure
// lasted. A lower threshold, or a longer grace period, would have spared it in this pass only.
func Changes(r *decision.Decision) (out []Change, err error) {
	s, err := situationOf(r)
	if err != nil {
		return nil, err
	}
	was := s.decide()
	switch {
	case len(was.Order) == 0:
		return nil, errNoEviction
	case len(r.Order) == 0 || r.Order[0] != was.Order[0]:
		return nil, ErrAnotherVictim
	}
	victim, acted := was.Order[0], was.Acted
	if r.Ranker == nil || !r.Ranker.Custom {
		from := int64(r.Candidates[victim].Priority)
		out = s.least(out, Change{What: Priority, Step: 1}, from, mostPriority-from, func(s *situation, v int64) { s.candidates[victim].Pod.Priority = int32(v) })
	}
	if t := s.thresholds[acted]; s.prolonged(acted) { // otherwise the pressure was over
		amount := t.MinReclaim.Of(s.observed[t.Signal].Capacity)
		out = s.least(out, Change{What: MinReclaim, Of: string(t.Signal), Step: -1}, amount.Value(), amount.Value(), func(s *situation, v int64) {
			s.thresholds[acted].MinReclaim = &policy.Value{Quantity: *resource.NewQuantity(v, resource.BinarySI)}
		})
	}
	return out, nil
}

// least appends c to all with the value nearest to from, at most far from it, from which on the victim
// is spared if set gives it that value.
func (s *situation) least(all []Change, c Change, from, far int64, set func(s *situation, value int64)) []Change {
	victim := s.record.Order[0]
	varied := func(distance int64) (spared bool, order []int) {
		changed := *s
		changed.candidates, changed.thresholds = slices.Clone(s.candidates), slices.Clone(s.thresholds)
		set(&changed, from+c.Step*distance)
		d := changed.decide()
		return !d.Unknown && (len(d.Order) == 0 || d.Order[0] != victim), d.Order
	}
	if already, _ := varied(0); already || far <= 0 {
		return all
	}
	if does, _ := varied(far); !does {
		return all
	}
	distance := firstOf(far, func(distance int64) bool {
		does, _ := varied(distance)
		return does
	})
	c.Value = from + c.Step*distance
	if _, order := varied(distance); len(order) > 0 {
		c.NextVictim = s.record.Candidates[order[0]].Pod
	}
	return append(all, c)
}

// firstOf returns the least number up to far from which on is is true. It is so at far, and not at 0.
func firstOf(far int64, is func(int64) bool) int64 {
	no, yes := int64(0), far
	for yes-no > 1 {
		if middle := no + (yes-no)/2; is(middle) {
			yes = middle
		} else {
			no = middle
		}
	}
	return yes
}
