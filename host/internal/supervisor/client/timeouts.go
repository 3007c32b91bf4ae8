package client

import (
	"cmp"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// Timeouts are the deadlines of calls. A caller's earlier deadline wins. Zero
// fields have the defaults of package eviction.
type Timeouts struct {
	// Handshake is from the start of the process until it can be called. It
	// doubles, and so do Describe and Configure, with each start in a row that was
	// late, three times at most.
	Handshake time.Duration
	// Start is the time that the host waits for the plugins that it finds at its start, and
	// custom ones for each other: 3 s. One that hangs is not to hold up the rest until its
	// handshake is overdue.
	Start     time.Duration
	Describe  time.Duration
	Configure time.Duration
	Observe   time.Duration
	Measure   time.Duration
	Rank      time.Duration
	// ReclaimIdle bounds the time without progress of a reclaim step, Reclaim its time in all.
	ReclaimIdle time.Duration
	Reclaim     time.Duration
	// Stop is from SIGTERM to SIGKILL.
	Stop time.Duration
}

// AtLeast gives every call of a plugin this long, and its start.
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
