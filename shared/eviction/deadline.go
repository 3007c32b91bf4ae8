package eviction

import "time"

// The deadlines of calls to a plugin. They are what the host has by default and what
// the conformance suite holds a plugin to.
const (
	// HandshakeDeadline is from the start of a plugin's process until it can be called.
	HandshakeDeadline = 10 * time.Second
	DescribeDeadline  = 2 * time.Second
	ConfigureDeadline = 2 * time.Second
	ObserveDeadline   = time.Second
	MeasureDeadline   = 5 * time.Second
	RankDeadline      = time.Second
	// ReclaimIdleDeadline bounds the time of a reclaim step without progress, ReclaimDeadline
	// that of the whole step.
	ReclaimIdleDeadline = 30 * time.Second
	ReclaimDeadline     = 10 * time.Minute
	// StopDeadline is from SIGTERM to SIGKILL.
	StopDeadline = 2 * time.Second
)
