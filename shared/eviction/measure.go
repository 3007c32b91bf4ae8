package eviction

import (
	"context"
	"time"
)

// Measurer reads figures of pods.
type Measurer interface {
	// Measure calls emit once for each requested pod that it has an answer for,
	// in any order and from any goroutine until Measure returns; emit is safe
	// for concurrent use and keeps nothing that the caller may not reuse.
	// Answers given before the deadline count even if Measure never returns. A
	// pod that got none by then is unknown.
	Measure(ctx context.Context, req MeasureRequest, emit func(Measurement)) error
}

// A MeasureRanker is a Measurer whose plugin ranks the pods in the same call: their
// rows need not travel twice. It is for the host's side; a plugin's author gives a
// Measurer and a Ranker, which package wire joins.
type MeasureRanker interface {
	Measurer
	// MeasureAndRank is Measure and, if every pod got an answer, the Rank of rank
	// with those as candidates.
	MeasureAndRank(ctx context.Context, req MeasureRequest, rank RankRequest, emit func(Measurement)) (Ranking, error)
}

// Ranking is the order that MeasureAndRank returned. The zero Ranking means that it did not
// rank, so that Rank is to be called.
type Ranking struct {
	Order []Ranked
	// Err says why the order cannot be had, of Rank neither.
	Err error
}

// Detail says how deep a measurement goes.
type Detail uint8

const (
	// DetailPod asks for the figures of whole pods: enough to rank.
	DetailPod Detail = iota + 1
	// DetailContainers asks for containers and volumes as well: for messages and
	// local-storage limits.
	DetailContainers
)

// MeasureRequest is the input of Measurer.
type MeasureRequest struct {
	PassView

	Detail  Detail
	Signals []Signal
	Pods    []Pod
}

// MeasurementState tells the three kinds of a measurement apart.
type MeasurementState uint8

const (
	// MeasurementUnknown is a failed or late measurement: the host uses the last
	// known figure, else ranks the pod after the measured ones of its priority.
	MeasurementUnknown MeasurementState = iota
	// Measured carries figures.
	Measured
	// NoStats is the source saying that it has no figures of this pod; as in the
	// kubelet such a pod ranks before all that have.
	NoStats
)

// Figure is an amount that may be missing. The zero Figure is missing.
type Figure struct {
	Value int64
	OK    bool
}

// Some returns the figure v.
func Some(v int64) Figure { return Figure{Value: v, OK: true} }

// Measurement holds the usage of one pod.
type Measurement struct {
	UID   string
	State MeasurementState
	// Usage has, per requested signal, the figure that its ranking uses, with
	// the filesystem layout already applied.
	Usage []SignalUsage
	// Pod-level figures, in bytes and processes.
	WorkingSetBytes           Figure
	Processes                 Figure
	EphemeralStorageUsedBytes Figure
	// Time is the wall time of the sample, zero if not known.
	Time time.Time
	// Containers and Volumes are in the source's order, with DetailContainers.
	Containers []ContainerMeasurement
	Volumes    []VolumeMeasurement
	// Err says why the state is MeasurementUnknown.
	Err string
}

// SignalUsage is the ranking figure of one signal, in its base unit.
type SignalUsage struct {
	Signal Signal
	Value  int64
}

// UsageFor returns the ranking figure for s, 0 when there is none.
func (m *Measurement) UsageFor(s Signal) int64 {
	for i := range m.Usage {
		if m.Usage[i].Signal == s {
			return m.Usage[i].Value
		}
	}
	return 0
}

// ContainerMeasurement is the use of one container.
type ContainerMeasurement struct {
	Name             string
	WorkingSetBytes  Figure
	RootfsUsedBytes  Figure
	RootfsInodesUsed Figure
	LogsUsedBytes    Figure
	LogsInodesUsed   Figure
}

// VolumeMeasurement is the use of one volume.
type VolumeMeasurement struct {
	Name       string
	UsedBytes  Figure
	InodesUsed Figure
}
