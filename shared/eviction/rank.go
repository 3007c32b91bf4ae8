package eviction

import "context"

// A Ranker decides who goes first.
type Ranker interface {
	// Rank returns candidates, most evictable first. One that is left out is
	// not to be evicted. Rank does no I/O and must not retain or change req.
	Rank(ctx context.Context, req RankRequest) ([]Ranked, error)
}

// RankRequest is the input of Ranker.
type RankRequest struct {
	Pass      uint64
	Signal    Signal
	Unit      Unit
	Threshold Threshold
	// Available and Capacity are as observed; Shortfall is the amount to reclaim to
	// satisfy the threshold and its minimum reclaim, at least 1.
	Available int64
	Capacity  int64
	Shortfall int64
	// Hard: the threshold has no grace period.
	Hard bool
	// Candidates are in the order of the pod source. Pods that must not be
	// evicted are never among them.
	Candidates []Candidate
}

// Candidate is a pod that may be evicted and what it uses.
type Candidate struct {
	Pod         Pod
	Measurement Measurement
}

// Ranked is one entry of a ranking.
type Ranked struct {
	UID string
	// Reason is for log and record, optional, never shown in the eviction
	// message.
	Reason string
}
