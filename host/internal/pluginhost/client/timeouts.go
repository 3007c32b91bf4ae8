package client

import (
	"cmp"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// Timeouts are the deadlines of calls. A caller's earlier deadline wins. Zero fields take the
// defaults of package eviction.
type Timeouts struct {
	// Handshake is the time from the start of the process until it can be called. Like Describe and
	// Configure it doubles with each consecutive late start, three times at most.
	Handshake time.Duration
	// Start bounds the wait of the host for the plugins found at its start, and of custom ones for
	// each other: 3 s. One that hangs must not delay the rest until its handshake times out.
	Start     time.Duration
	Describe  time.Duration
	Configure time.Duration
	Observe   time.Duration
	Measure   time.Duration
	Rank      time.Duration
	// ReclaimIdle bounds the time without progress of a reclaim step, Reclaim its total time.
	ReclaimIdle time.Duration
	Reclaim     time.Duration
	// Stop is the time between SIGTERM and SIGKILL.
	Stop time.Duration
}

// AtLeast raises every deadline, including that of the start, to at least d.
func (t Timeouts) AtLeast(d time.Duration) Timeouts {
	t = t.WithDefaults()
	for _, limit := range []*time.Duration{&t.Handshake, &t.Start, &t.Describe, &t.Configure, &t.Observe, &t.Measure, &t.Rank} {
		*limit = max(*limit, d)
	}
	return t
}

// WithDefaults fills in the fields that are zero.
func (t Timeouts) WithDefaults() Timeouts {
	return Timeouts{
		Handshake:   cmp.Or(t.Handshake, eviction.HandshakeDeadline),
		Start:       cmp.Or(t.Start, 3*time.Second),
		Describe:    cmp.Or(t.Describe, eviction.DescribeDeadline),
		Configure:   cmp.Or(t.Configure, eviction.ConfigureDeadline),
		Observe:     cmp.Or(t.Observe, eviction.ObserveDeadline),
		Measure:     cmp.Or(t.Measure, eviction.MeasureDeadline),
		Rank:        cmp.Or(t.Rank, eviction.RankDeadline),
		ReclaimIdle: cmp.Or(t.ReclaimIdle, eviction.ReclaimIdleDeadline),
		Reclaim:     cmp.Or(t.Reclaim, eviction.ReclaimDeadline),
		Stop:        cmp.Or(t.Stop, eviction.StopDeadline),
	}
}
