package main

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// A ranker puts lower priority first, then who has written more. That is the order
// which the host has for all signals but the kubelet's (rank.For), so that it stays
// the same should this plugin not answer. Here the reasons are in words that fit.
type ranker struct{}

// Rank implements eviction.Ranker.
func (ranker) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	reasons := make(map[string]string, len(req.Candidates))
	for i := range req.Candidates {
		c := &req.Candidates[i]
		reasons[c.Pod.UID] = reason(c)
	}
	ranking := rank.Sort(req.Candidates, rank.For(signal))
	for i := range ranking {
		ranking[i].Reason = reasons[ranking[i].UID]
	}
	return ranking, nil
}

func reason(c *eviction.Candidate) string {
	if c.Measurement.State != eviction.Measured {
		return fmt.Sprintf("priority %d, not known what it wrote", c.Pod.Priority)
	}
	return fmt.Sprintf("priority %d, has written %d MiB", c.Pod.Priority, c.Measurement.UsageFor(signal)>>20)
}
