package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// manyCandidates are ten times as many as a large node has.
	manyCandidates = 5000
	// fewCandidates is what their time is compared with.
	fewCandidates = 500
	// worstRatio is more than n log n takes for ten times as many, and less than n*n.
	worstRatio = 40
	// bearable is no trouble, whatever it is compared with.
	bearable = 200 * time.Millisecond
	// scaleTime is what one ranking of many may take here.
	scaleTime = 4 * time.Second
)

// rankedToScale compares the times of few and many candidates.
func rankedToScale(ctx context.Context, s *subject) error {
	few, err := s.rankTime(ctx, fewCandidates, 15)
	if err != nil {
		return err
	}
	many, err := s.rankTime(ctx, manyCandidates, 3)
	if _, late := errors.AsType[slow](err); err != nil && !late {
		return err
	}
	if many > bearable && many > worstRatio*few {
		return slow{fmt.Errorf("%d candidates take %s, %d take %s or more, which is %d times as long: want less than %d times",
			fewCandidates, few.Round(time.Microsecond), manyCandidates, many.Round(time.Millisecond), many/few, worstRatio)}
	}
	return nil
}

// rankTime is the best of some rankings of n candidates, or what was waited for the first
// one that was late. The shorter they are the more it takes for one that nothing else on
// the machine has held up.
func (s *subject) rankTime(ctx context.Context, n, rankings int) (time.Duration, error) {
	req := s.rankRequest(s.offering(eviction.CanRank)[0], s.candidates(n))
	best := s.options.patient(scaleTime)
	for range rankings {
		begin := time.Now()
		err := s.options.within(ctx, scaleTime, func(ctx context.Context) error {
			_, err := s.plugin.Ranker.Rank(ctx, req)
			return err
		})
		if err != nil {
			return time.Since(begin), err
		}
		best = min(best, time.Since(begin))
	}
	return best, nil
}

// rankedSomebody wants that a ranking is one. A rule that goes by marks of the pods
// may know none of those that are made up.
func rankedSomebody(ctx context.Context, s *subject) error {
	for _, signal := range s.offering(eviction.CanRank) {
		order, err := s.rank(ctx, s.rankRequest(signal, s.candidates(100)))
		if err != nil {
			return fmt.Errorf("%s: %w", signal, err)
		}
		switch seen := fmt.Sprintf("%s: all of 100 pods are left out", signal); {
		case len(order) > 0:
		case len(s.plugin.WantLabels)+len(s.plugin.WantAnnotations) > 0:
			return noted(seen + ", which may be for their labels and annotations")
		default:
			return errors.New(seen)
		}
	}
	return nil
}

// rankedNamesakes sends pods of the same name in many namespaces, which are told
// apart by nothing else than the uid.
func rankedNamesakes(ctx context.Context, s *subject) error {
	candidates := s.candidates(40)
	apart, err := s.rankOne(ctx, candidates)
	if err != nil {
		return err
	}
	for i := range candidates {
		candidates[i].Pod.Namespace, candidates[i].Pod.Name = fmt.Sprintf("ns-%d", i), "web"
	}
	alike, err := s.rankOne(ctx, candidates)
	if err != nil {
		return err
	}
	if err := errors.Join(foreign(candidates, alike), repeated(alike)); err != nil {
		return err
	}
	slices.Sort(apart)
	if left := len(slices.Compact(apart)); len(alike) < left {
		return fmt.Errorf("%d of %d pods, and %d when each has a name of its own", len(alike), len(candidates), left)
	}
	return nil
}
