// Package whatif makes a recorded decision again from its record alone, as it was and
// otherwise: what would have spared the pod that went, and who would have gone
// instead. It is pure: records in, values out.
package whatif

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

var (
	errNoEviction = errors.New("the record is of no choice between pods")
	// ErrAnotherVictim reports a record whose figures choose another pod than the one evicted.
	ErrAnotherVictim = errors.New("what is recorded has another pod go first")
)

// A Result is which threshold a record has acted on, and the order of the candidates.
type Result struct {
	// Acted is the place of the threshold that is acted on, -1 if none is.
	Acted int
	// Order has the places of the candidates, the first to go first. It is empty if none
	// goes, or Unknown: the figures of the threshold's signal are not in the record.
	Order   []int
	Unknown bool
}

// Again makes the decision of a record again: which threshold is acted on, and who goes in
// which order.
func Again(r *decision.Decision) (Result, error) {
	acted := slices.IndexFunc(r.Thresholds, func(t decision.Threshold) bool { return t.Acted })
	if acted < 0 || len(r.Candidates) == 0 {
		return Result{Acted: -1}, errNoEviction
	}
	c, err := situationOf(r)
	if err != nil {
		return Result{Acted: -1}, err
	}
	return c.decide(), nil
}

// A situation is a record in the words of policy and rank, of which parts can be changed.
type situation struct {
	record     *decision.Decision
	acted      int
	thresholds []policy.Threshold
	observed   map[eviction.Signal]eviction.Observation
	candidates []eviction.Candidate
	// held are thresholds that were more urgent and not acted on all the same: something was
	// done for them already.
	held []bool
}

func situationOf(r *decision.Decision) (*situation, error) {
	s := &situation{record: r, observed: map[eviction.Signal]eviction.Observation{}, held: make([]bool, len(r.Thresholds))}
	s.acted = slices.IndexFunc(r.Thresholds, func(t decision.Threshold) bool { return t.Acted })
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

// decide returns the decision of s.
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

// chosen returns the threshold that is acted on, -1 if none is.
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

// actionable assesses one threshold, in the pass that first saw it met and in that of the
// record.
func (s *situation) actionable(i int) bool {
	was, t := &s.record.Thresholds[i], s.thresholds[i]
	o := s.observed[t.Signal]
	if o.State != eviction.Observed || was.GraceOver && !was.Actionable { // its figures were no newer
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

// prolonged reports whether a threshold was met by what is to be reclaimed beyond its value
// alone.
func (s *situation) prolonged(i int) bool {
	t, err := s.record.Thresholds[i].Policy() // as it was
	if err != nil || s.record.Thresholds[i].Since == nil {
		return false
	}
	q, o := t.Amount(s.observed[t.Signal].Capacity), s.observed[t.Signal]
	return q.CmpInt64(o.Available) <= 0
}
