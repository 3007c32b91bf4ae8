package eviction

import (
	"context"
	"time"
)

// View says whether a call comes before or after the node-level reclaim of its pass.
type View uint8

// The views of a pass. Ranking and messages use ViewBefore.
const (
	ViewBefore View = iota + 1
	ViewAfterReclaim
)

// PassView identifies a pass and its view. Within one PassView the host's stats summary gives
// every plugin the same figures.
type PassView struct {
	// Pass numbers the host's passes; it only grows and a host never reuses a number.
	Pass uint64
	View View
}

// Observer reads the node's figures.
type Observer interface {
	// Observe reads each requested signal now. It is called in every pass and must be cheap, fresh
	// and independent of the number of pods. A signal missing from the reply counts as unknown.
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
	// Layout is set only by the plugin with OwnsLayout, else nil.
	Layout *LayoutReport
}

// ObservationState says whether an observation has figures and, if not, why.
type ObservationState uint8

const (
	// Unknown means that the observation failed, was late or was not requested: the host
	// concludes nothing from it and starts or stops no timer.
	Unknown ObservationState = iota
	// Observed means that the observation has figures.
	Observed
	// Absent means that the source has no such figure: the threshold counts as not met
	// and its timers are reset.
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
	// Freeing is the amount that is being released right now and becomes available without an
	// eviction, such as blocks of deleted files that a filesystem has not released yet. While it
	// would suffice, the host evicts no further pod, for at most a minute after the last evicted
	// pod ended. It counts for disks and custom signals only; 0 if nothing is being released.
	Freeing int64
	// Time is the wall time of the sample, zero if the source has none. The host treats a
	// figure with an impossible time as unknown: see CheckSampleAge.
	Time time.Time
	// BootNanos is the CLOCK_BOOTTIME reading of the sample in nanoseconds, 0 if not known. If
	// two samples both have it, it decides which one is newer.
	BootNanos int64
	// Components explain to people how Available was computed.
	Components []Component
	// Err says why the state is Unknown.
	Err string
}

// Component is one figure that an observation was computed from.
type Component struct {
	Name  string
	Value int64
}
