// Package whatif repeats a recorded decision from its record alone, unchanged or varied. It finds
// what would have spared the evicted pod, and which pod would have been evicted instead. It is
// pure.
package whatif

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

var (
	errNoEviction = errors.New("the record is of no choice between pods")
	// ErrAnotherVictim reports a record whose figures choose another pod than the one evicted.
	ErrAnotherVictim = errors.New("what is recorded has another pod go first")
)

// A Result is the threshold that a record acted on, and the order of the candidates.
type Result struct {
	// Acted is the index of the threshold acted on, -1 if none is.
	Acted int
	// Order holds the indexes of the candidates, the first to be evicted first. It is empty if none
	// is evicted, or if Unknown: the record lacks figures of the threshold's signal.
	Order   []int
	Unknown bool
}

// Again repeats the decision of a record: which threshold is acted on, and the order of the pods.
func Again(r *decision.Decision) (Result, error) {
	s, err := situationOf(r)
	if err != nil {
		return Result{Acted: -1}, err
	}
	return s.decide(), nil
}

// A situation is a record converted to inputs of policy and rank, which can be varied.
type situation struct {
	record     *decision.Decision
	acted      int
	thresholds []policy.Threshold
	observed   map[eviction.Signal]eviction.Observation
	candidates []eviction.Candidate
	// held marks thresholds that were more urgent but not acted on, as an action was already under way.
	held []bool
}

func situationOf(r *decision.Decision) (*situation, error) {
	s := &situation{record: r, observed: map[eviction.Signal]eviction.Observation{}, held: make([]bool, len(r.Thresholds))}
	s.acted = slices.IndexFunc(r.Thresholds, func(t decision.Threshold) bool { return t.Acted })
	if s.acted < 0 || len(r.Candidates) == 0 {
		return nil, errNoEviction
	}
	for i := range r.Thresholds {
		t, err := r.Thresholds[i].Policy()
		if err != nil {
			return nil, fmt.Errorf("thresholds[%d]: %w", i, err)
		}
		s.thresholds = append(s.thresholds, t)
	}
	for _, o := range r.Observations {
		s.observed[o.Signal] = o.Policy()
	}
	signal := r.Thresholds[s.acted].Signal
	for i := range r.Candidates {
		s.candidates = append(s.candidates, r.Candidates[i].Ranked(signal))
	}
	for {
		at := s.chosen()
		if at < 0 || at == s.acted {
			return s, nil
		}
		s.held[at] = true
	}
}

func (s *situation) decide() Result {
	d := Result{Acted: s.chosen()}
	if d.Acted < 0 {
		return d
	}
	signal, known := s.thresholds[d.Acted].Signal, s.thresholds[s.acted].Signal
	switch {
	case signal != known && !slices.Contains(eviction.SameResource(known), signal):
		d.Unknown = true
	case s.record.Ranker != nil && s.record.Ranker.Custom:
		d.Order = s.record.Order
	default:
		places := make(map[string]int, len(s.candidates))
		for i := range s.candidates {
			places[s.candidates[i].Pod.UID] = i
		}
		for _, ranked := range rank.Kubelet(s.candidates, known) {
			d.Order = append(d.Order, places[ranked.UID])
		}
	}
	return d
}

// chosen returns the index of the threshold acted on, -1 if there is none.
func (s *situation) chosen() int {
	var actionable []policy.Threshold
	var places []int
	for i, t := range s.thresholds {
		if !s.held[i] && s.actionable(i) {
			actionable, places = append(actionable, t), append(places, i)
		}
	}
	t, ok := policy.Choose(actionable)
	if !ok {
		return -1
	}
	return places[slices.IndexFunc(actionable, func(u policy.Threshold) bool { return u.Key() == t.Key() })]
}

// actionable assesses one threshold, first in the pass that first saw it met and then in that of
// the record.
func (s *situation) actionable(i int) bool {
	was, t := &s.record.Thresholds[i], s.thresholds[i]
	o := s.observed[t.Signal]
	if o.State != eviction.Observed || was.GraceOver && !was.Actionable { // its figures were not newer
		return false
	}
	now := s.record.Now
	var state policy.State
	if was.Since != nil && was.Since.Before(now) {
		before := o
		before.Time = time.Time{}
		if s.prolonged(i) {
			before.Available = math.MinInt64 / 2
		}
		for _, at := range []time.Time{*was.Since, now.Add(-1)} {
			state, _ = assess(state, t, before, at)
		}
		o.Time = time.Time{} // newer each time
	}
	_, a := assess(state, t, o, now)
	return len(a.Actionable) > 0
}

func assess(s policy.State, t policy.Threshold, o eviction.Observation, now time.Time) (policy.State, policy.Assessment) {
	return policy.Assess(s, policy.Input{Now: now, Thresholds: []policy.Threshold{t}, Observations: map[eviction.Signal]eviction.Observation{t.Signal: o}})
}

// prolonged reports whether a threshold was still met only because of its minimum reclaim.
func (s *situation) prolonged(i int) bool {
	t, err := s.record.Thresholds[i].Policy() // as it was
	if err != nil || s.record.Thresholds[i].Since == nil {
		return false
	}
	q, o := t.Amount(s.observed[t.Signal].Capacity), s.observed[t.Signal]
	return q.CmpInt64(o.Available) <= 0
}
