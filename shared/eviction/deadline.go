package eviction

import "time"

// The deadlines of calls to a plugin: the host's defaults, which the conformance suite enforces.
const (
	// HandshakeDeadline is the time from the start of a plugin's process until it must be ready.
	HandshakeDeadline = 10 * time.Second
	DescribeDeadline  = 2 * time.Second
	ConfigureDeadline = 2 * time.Second
	ObserveDeadline   = time.Second
	MeasureDeadline   = 5 * time.Second
	RankDeadline      = time.Second
	MetricsDeadline   = 200 * time.Millisecond
	// ReclaimIdleDeadline limits the time that a reclaim step may go without progress,
	// ReclaimDeadline that of the whole step.
	ReclaimIdleDeadline = 30 * time.Second
	ReclaimDeadline     = 10 * time.Minute
	// StopDeadline is the time between SIGTERM and SIGKILL.
	StopDeadline = 2 * time.Second
)
