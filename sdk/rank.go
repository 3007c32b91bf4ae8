package sdk

import (
	"context"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// RankBy returns a ranker that sorts all candidates by the first comparator
// that tells two apart. Full ties keep the order of the pod source.
func RankBy(compare ...rank.Compare) eviction.Ranker { return ranker(rank.Chain(compare...)) }

type ranker rank.Compare

func (r ranker) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	return rank.Sort(req.Candidates, rank.Compare(r)), nil
}

// RankAsKubelet returns a ranker that sorts by the kubelet's order for the signal
// asked about (rank.For).
func RankAsKubelet() eviction.Ranker { return kubeletRanker{} }

type kubeletRanker struct{}

func (kubeletRanker) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	return rank.Kubelet(req.Candidates, req.Signal), nil
}
