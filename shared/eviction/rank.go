package eviction

import "context"

// Ranker decides the order in which pods are evicted.
type Ranker interface {
	// Rank returns the candidates in the order of eviction. A candidate that is left out is
	// not evicted. Rank does no I/O and must neither retain nor change req.
	Rank(ctx context.Context, req RankRequest) ([]Ranked, error)
}

// RankRequest is the input of Ranker.
type RankRequest struct {
	Pass      uint64
	Signal    Signal
	Unit      Unit
	Threshold Threshold
	// Available and Capacity are as observed. Shortfall, at least 1, is the amount to reclaim
	// to satisfy the threshold and its minimum reclaim. All are in Unit.
	Available int64
	Capacity  int64
	Shortfall int64
	// Hard: the threshold has no grace period.
	Hard bool
	// Candidates are in the kubelet's order for the signal (rank.For), so that pods which are equal to a ranker
	// stay in it. They never include pods that must not be evicted.
	Candidates []Candidate
}

// Candidate is a pod that may be evicted, with its usage.
type Candidate struct {
	Pod         Pod
	Measurement Measurement
}

// Ranked is one entry of a ranking.
type Ranked struct {
	UID string
	// Reason, optional, explains the rank in the log and the decision record. It is never
	// part of the eviction message.
	Reason string
}
