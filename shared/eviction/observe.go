package eviction

import (
	"context"
	"time"
)

// A View tells on which side of node-level reclaim a pass looks.
type View uint8

// The views of a pass. Ranking and messages use ViewBefore.
const (
	ViewBefore View = iota + 1
	ViewAfterReclaim
)

// PassView identifies a pass and its view. Figures that are read for one of them are
// the same for all who ask within it.
type PassView struct {
	// Pass numbers the host's passes; it grows and is never reused by a host.
	Pass uint64
	View View
}

// Observer reads the node's figures.
type Observer interface {
	// Observe reads each requested signal now. It is called in every pass and
	// must be cheap, fresh and independent of the number of pods. A signal that
	// is left out of the reply counts as unknown.
	Observe(ctx context.Context, req ObserveRequest) (ObserveReply, error)
}

// ObserveRequest is the input of Observer.
type ObserveRequest struct {
	PassView

	Signals []Signal
}

// ObserveReply is the output of Observer.
type ObserveReply struct {
	Observations []Observation
	// Layout is set by the plugin that owns the layout, else nil.
	Layout *LayoutReport
}

// ObservationState tells the three kinds of an observation apart.
type ObservationState uint8

const (
	// Unknown is a failed, late or not asked observation: nothing is concluded
	// from it and no timer moves.
	Unknown ObservationState = iota
	// Observed carries figures.
	Observed
	// Absent is the source saying that it has no such figure: the threshold is
	// not met and its timers are forgotten.
	Absent
)

// Observation is one signal's figure at one time.
type Observation struct {
	Signal Signal
	State  ObservationState
	// Available and Capacity are in the signal's base unit. Available may be
	// negative (pid.available can be).
	Available int64
	Capacity  int64
	// Freeing is the amount that is being released right now and will be available without a
	// pod going: blocks of deleted files that a filesystem has not given back yet. As long as
	// it would suffice the host takes no further pod, for a minute after the last one's end at
	// most. It counts for disks and custom signals only; 0 for nothing.
	Freeing int64
	// Time is the wall time of the sample. Zero when the source has none. A figure
	// whose time cannot be is unknown: CheckSampleAge.
	Time time.Time
	// BootNanos is the CLOCK_BOOTTIME reading of the sample, 0 if not known. It
	// decides which of two samples is newer when both have it.
	BootNanos int64
	// Components explain Available, for people: names and figures.
	Components []Component
	// Err says why the state is Unknown.
	Err string
}

// Component is one figure that an observation was computed from.
type Component struct {
	Name  string
	Value int64
}
