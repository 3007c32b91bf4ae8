package whatif

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// The parts of a decision that can be varied.
const (
	Request    = "request"
	Priority   = "priority"
	MinReclaim = "minReclaim"
)

const (
	// mostRequest and mostPriority bound the search: higher requests do not exist, and a higher
	// priority makes a pod critical (scheduling.HighestUserDefinablePriority).
	mostRequest  = 1 << 60
	mostPriority = 1_000_000_000
)

// A Change is the smallest change of one value that would have spared the victim: one step less
// would not.
type Change struct {
	// What is one of the names above; Of names its resource or threshold.
	What string `json:"change"`
	Of   string `json:"of,omitempty"`
	// Value is in bytes, in the signal's unit, or a priority; Step is its smallest step.
	Value int64 `json:"value"`
	Step  int64 `json:"step"`
	// NextVictim names the pod that would have been evicted, empty for none.
	NextVictim string `json:"instead,omitempty"`
}

// A variable is a value that can vary: of the victim's row or the threshold acted on.
type variable struct {
	name, of string
	// from is the original value, to the most distant one. If a value spares the victim, so do
	// those beyond it.
	from, to int64
	apply    func(s *situation, value int64)
}

// Changes returns the changes that would have spared the victim of a record.
func Changes(r *decision.Decision) ([]Change, error) {
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
	victim := was.Order[0]
	var out []Change
	for _, c := range s.changes(victim) {
		found, ok := s.least(c, victim)
		if !ok {
			continue
		}
		does, _ := Spares(r, found, found.Value)
		less, _ := Spares(r, found, found.Value-found.Step)
		if does && !less { // otherwise its order is not the kubelet's
			out = append(out, found)
		}
	}
	return out, nil
}

// Spares reports whether the victim of a record is spared if a change has another value.
func Spares(r *decision.Decision, w Change, value int64) (bool, error) {
	s, err := situationOf(r)
	if err != nil {
		return false, err
	}
	was := s.decide()
	if len(was.Order) == 0 {
		return false, nil
	}
	for _, c := range s.changes(was.Order[0]) {
		if c.name == w.What {
			spared, _ := s.spared(c, was.Order[0], value)
			return spared, nil
		}
	}
	return false, fmt.Errorf("change: %q, which has no effect on the decision", w.What)
}

// changes returns the variables whose effect lasts as long as the pressure. A lower threshold, or a
// longer grace period, would have spared the pod in this pass only.
func (s *situation) changes(victim int) []variable {
	t, pod := s.thresholds[s.acted], s.candidates[victim].Pod
	o, signal := s.observed[t.Signal], t.Signal
	d, builtin := eviction.Builtin(signal)
	var all []variable
	if s.record.Ranker == nil || !s.record.Ranker.Custom {
		switch {
		case s.record.Candidates[victim].AtMost > 0: // its use is a lower bound
		case builtin && d.Condition == eviction.MemoryPressure:
			all = append(all, variable{Request, "memory", pod.MemoryRequestBytes, mostRequest, func(s *situation, v int64) { s.candidates[victim].Pod.MemoryRequestBytes = v }})
		case builtin && d.Condition == eviction.DiskPressure:
			all = append(all, variable{Request, "ephemeral-storage", pod.EphemeralStorageRequestBytes, mostRequest, func(s *situation, v int64) {
				s.candidates[victim].Pod.EphemeralStorageRequestBytes = v
			}})
		}
		all = append(all, variable{Priority, "", int64(pod.Priority), mostPriority, func(s *situation, v int64) { s.candidates[victim].Pod.Priority = int32(v) }})
	}
	if s.prolonged(s.acted) { // otherwise the pressure was over
		least := t.MinReclaim.Of(o.Capacity)
		all = append(all, variable{MinReclaim, string(signal), least.Value(), 0, func(s *situation, v int64) {
			s.thresholds[s.acted].MinReclaim = &policy.Value{Quantity: *resource.NewQuantity(v, resource.BinarySI)}
		}})
	}
	return all
}

// least finds the value nearest to the original from which on the victim is spared.
func (s *situation) least(c variable, victim int) (Change, bool) {
	step := int64(1)
	if c.to < c.from {
		step = -1
	}
	far := step * (c.to - c.from) // negative on overflow
	ok, _ := s.spared(c, victim, c.to)
	if already, _ := s.spared(c, victim, c.from); !ok || already || far <= 0 {
		return Change{}, false
	}
	// Invariant: not spared at no, spared at yes, both as distances from the original value.
	no, yes := int64(0), far
	for yes-no > 1 {
		middle := no + (yes-no)/2
		if ok, _ := s.spared(c, victim, c.from+step*middle); ok {
			yes = middle
		} else {
			no = middle
		}
	}
	value := c.from + step*yes
	_, d := s.spared(c, victim, value)
	found := Change{What: c.name, Of: c.of, Value: value, Step: step}
	if len(d.Order) > 0 {
		found.NextVictim = s.record.Candidates[d.Order[0]].Pod
	}
	return found, true
}

// spared reports whether the victim is spared with a changed value, and returns the resulting
// decision.
func (s *situation) spared(c variable, victim int, value int64) (bool, Result) {
	changed := *s
	changed.candidates, changed.thresholds = slices.Clone(s.candidates), slices.Clone(s.thresholds)
	c.apply(&changed, value)
	d := changed.decide()
	return !d.Unknown && (len(d.Order) == 0 || d.Order[0] != victim), d
}
