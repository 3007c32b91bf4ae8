package sdk

import (
	"context"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// RankBy returns a ranker that sorts the candidates by the first comparator in which two of them
// differ; equal ones keep the kubelet's order, in which the host sends them. It gives no reasons,
// since it cannot know what the comparators use: see RankWithReason.
func RankBy(compare ...rank.Compare) eviction.Ranker { return RankWithReason(nil, compare...) }

// RankWithReason is like RankBy, but calls reason for each of the first pods to explain their
// rank in the log. rank.Reason explains the kubelet's order.
func RankWithReason(reason func(*eviction.Candidate) string, compare ...rank.Compare) eviction.Ranker {
	return ranker{rank.Chain(compare...), reason}
}

type ranker struct {
	compare rank.Compare
	reason  func(*eviction.Candidate) string // nil for none
}

func (r ranker) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	return rank.SortWithReason(req.Candidates, r.compare, r.reason), nil
}

// RankAsKubelet returns a ranker that sorts by the kubelet's order for the requested signal
// (rank.For).
func RankAsKubelet() eviction.Ranker { return kubeletRanker{} }

type kubeletRanker struct{}

func (kubeletRanker) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	return rank.Kubelet(req.Candidates, req.Signal), nil
}
