package memory

import (
	"context"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

type ranker rank.Compare

func (r ranker) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	return rank.Sort(req.Candidates, rank.Compare(r)), nil
}
