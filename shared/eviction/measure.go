package eviction

import (
	"context"
	"time"
)

// Measurer measures how much pods use.
type Measurer interface {
	// Measure calls emit once for each requested pod that it has an answer for, in any order and
	// from any goroutine, until it returns. emit is safe for concurrent use and copies its
	// argument, so the caller may reuse the memory. Answers emitted before the deadline count even
	// if Measure never returns. A pod without an answer by then is unknown.
	Measure(ctx context.Context, req MeasureRequest, emit func(Measurement)) error
}

// Detail selects how detailed a measurement is.
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

// MeasurementState says whether a measurement has figures and, if not, why.
type MeasurementState uint8

const (
	// MeasurementUnknown means that the measurement failed or was late: the host uses the
	// last known figure, else ranks the pod after the measured ones of its priority.
	MeasurementUnknown MeasurementState = iota
	// Measured means that the measurement has figures.
	Measured
	// NoStats means that the source has no figures of this pod. As in the kubelet, such
	// a pod ranks before all pods that have figures.
	NoStats
)

// Figure is an amount that may be missing. The zero Figure is missing.
type Figure struct {
	Value int64
	OK    bool
}

// Some returns a Figure with the value v.
func Some(v int64) Figure { return Figure{Value: v, OK: true} }

// Measurement holds the usage of one pod.
type Measurement struct {
	UID   string
	State MeasurementState
	// Usage has the figure to rank by for each requested signal, with the filesystem
	// layout already applied.
	Usage []SignalUsage
	// Pod-level figures, in bytes and processes. EphemeralStorageUsedBytes is a lower bound if a
	// part of the pod's local storage is not known.
	WorkingSetBytes           Figure
	Processes                 Figure
	EphemeralStorageUsedBytes Figure
	// Time is the wall time of the sample, zero if not known.
	Time time.Time
	// Containers and Volumes are in the source's order; set only with DetailContainers.
	Containers []ContainerMeasurement
	Volumes    []VolumeMeasurement
	// Err says why the state is MeasurementUnknown.
	Err string
}

// SignalUsage is the figure to rank by for one signal, in the signal's base unit.
type SignalUsage struct {
	Signal Signal
	Value  int64
	// AtMost is the most that it can be while Value is only a lower bound, because not all was
	// looked at in time; 0 if Value is exact. While such a pod could be the first, the host asks
	// for it again, for half a minute at most, and then ranks it by Value.
	AtMost int64
}

// UsageFor returns the figure to rank by for s, 0 if there is none.
func (m *Measurement) UsageFor(s Signal) int64 {
	for i := range m.Usage {
		if m.Usage[i].Signal == s {
			return m.Usage[i].Value
		}
	}
	return 0
}

// ContainerMeasurement holds the usage of one container.
type ContainerMeasurement struct {
	Name             string
	WorkingSetBytes  Figure
	RootfsUsedBytes  Figure
	RootfsInodesUsed Figure
	LogsUsedBytes    Figure
	LogsInodesUsed   Figure
}

// VolumeMeasurement holds the usage of one volume.
type VolumeMeasurement struct {
	Name       string
	UsedBytes  Figure
	InodesUsed Figure
}
