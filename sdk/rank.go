package sdk

import (
	"context"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// RankBy returns a ranker that sorts all candidates by the first comparator
// that tells two apart. Full ties keep the order of the pod source. It gives no
// reasons: what decided is not to be seen from outside. RankWithReason does.
func RankBy(compare ...rank.Compare) eviction.Ranker { return RankWithReason(nil, compare...) }

// RankWithReason is RankBy with what reason says of each of the first pods, for the
// log. rank.Reason has the figures of the kubelet's order in words.
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

// RankAsKubelet returns a ranker that sorts by the kubelet's order for the signal
// asked about (rank.For).
func RankAsKubelet() eviction.Ranker { return kubeletRanker{} }

type kubeletRanker struct{}

func (kubeletRanker) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	return rank.Kubelet(req.Candidates, req.Signal), nil
}
