package conformance

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/shared/eviction"
)

func rankChecks() []check {
	checks := []check{
		{
			name: "rank", rpc: "Rank", input: "100 candidates, for each signal that is offered for it, hard and soft", gate: true,
			expect: fmt.Sprintf("an order within %s", rankTime), run: ranked,
		},
		{
			name: "rank-only-candidates", rpc: "Rank", input: "100 candidates",
			expect: "no uid that was not sent", run: rankedOnlyCandidates,
		},
		{
			name: "rank-once", rpc: "Rank", input: "100 candidates",
			expect: "no uid twice", run: rankedOnce,
		},
		{
			name: "rank-deterministic", rpc: "Rank", input: "the same 100 candidates five times",
			expect: "the same order", run: rankedTheSame,
		},
		{
			name: "rank-independent", rpc: "Rank", input: "100 candidates, then others with the same uids, then the first ones again",
			expect: "the same order as at first: nothing is kept from call to call", run: rankedIndependently,
		},
		{
			name: "rank-ties", rpc: "Rank", input: "30 candidates that differ in uid and name only, and the same in reverse",
			expect: "ties keep the order of the candidates, or names decide in both", run: rankedTies,
		},
		{
			name: "rank-few", rpc: "Rank", input: "no candidates, and one",
			expect: "an empty order, and at most that one", run: rankedFew,
		},
		{
			name: "rank-500", rpc: "Rank", input: "500 candidates",
			expect: fmt.Sprintf("an order within %s", rankTime), run: func(ctx context.Context, t *target) error { return t.rankMany(ctx, 500) },
		},
		{
			name: "rank-odd-rows", rpc: "Rank", input: "rows that nodes have: no start time, no figures, no_stats, priorities of 32 bits, odd labels and annotations",
			expect: "an order", run: rankedOddRows,
		},
		{
			name: "rank-impossible-rows", rpc: "Rank", input: "an empty uid, usage of 2^63-1 and below zero, times before 1970, negative requests",
			expect: "an order or a refusal", run: rankedImpossibleRows,
		},
		{
			name: "rank-newer-host", rpc: "Rank", input: "fields and a measurement state that do not exist yet",
			expect: "an order", run: rankedByNewer,
		},
		{
			name: "rank-parallel", rpc: "Rank", input: "20 calls with different candidates at once",
			expect: "the orders that come one by one", run: rankedInParallel,
		},
		{
			name: "rank-cancelled", rpc: "Rank", input: "30 calls that end before their answer, then one more",
			expect: "an answer to the last one", run: rankedAfterCancelled,
		},
		{
			name: "rank-somebody", rpc: "Rank", input: "100 candidates of every class and priority",
			expect: "an order with somebody in it", run: rankedSomebody,
		},
		{
			name: "rank-namesakes", rpc: "Rank", input: "40 candidates with the same name in different namespaces",
			expect: "as many of them as when their names differ", run: rankedNamesakes,
		},
	}
	for i := range checks {
		checks[i].needs = eviction.CanRank
	}
	return checks
}

// rank returns the order of uids as it came.
func (t *target) rank(ctx context.Context, req eviction.RankRequest) ([]string, error) {
	var order []string
	err := t.options.within(ctx, rankTime, func(ctx context.Context) error {
		list, err := t.plugin.Ranker.Rank(ctx, req)
		for _, r := range list {
			order = append(order, r.UID)
		}
		return err
	})
	return order, err
}

// rankOne ranks for the first signal that is offered for it.
func (t *target) rankOne(ctx context.Context, candidates []eviction.Candidate) ([]string, error) {
	return t.rank(ctx, t.rankRequest(t.offering(eviction.CanRank)[0], candidates))
}
