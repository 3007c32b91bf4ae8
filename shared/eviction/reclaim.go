package eviction

import "context"

// Reclaimer reclaims a resource of the node without evicting a pod.
type Reclaimer interface {
	// Reclaim runs one step. It is idempotent. It calls progress whenever it has
	// reclaimed something or is known to be alive: without it the host gives up
	// after 30 s. The result counts also when an error is returned with it.
	Reclaim(ctx context.Context, req ReclaimRequest, progress func(Reclaimed)) (Reclaimed, error)
}

// ReclaimStep is one step of node-level reclaim. It runs for the signals that it is
// listed for, and for others that are the same filesystem in the layout of now.
type ReclaimStep struct {
	// Name is unique within the signal; "container-gc" and "image-gc" are the
	// built-in ones. The same name in another signal is the same step.
	Name string
	// Layouts limits the step to some filesystem layouts; empty means all.
	Layouts []Layout
}

// ReclaimRequest is the input of Reclaimer.
type ReclaimRequest struct {
	Pass uint64
	// Signal is one that the step is listed for.
	Signal Signal
	Step   string
	// Pods are the pods that the host knows, with their states.
	Pods []PodPhase
	// AllSourcesReady: Pods is complete, so a pod not in it does not exist.
	AllSourcesReady bool
	// Shortfall is the amount, at least 1, that the signal lacks for its thresholds and their
	// min reclaim. 0: the host does not say.
	Shortfall int64
}

// PodPhase is the phase of a pod's life, as container GC distinguishes it.
type PodPhase struct {
	UID   string
	State PodState
}

// PodState is a state in a pod's life.
type PodState uint8

// The states, in the order in which a pod goes through them.
const (
	PodActive PodState = iota + 1
	PodTerminated
	PodEvicted
	PodDeleted
)

// Reclaimed holds what a step has reclaimed so far.
type Reclaimed struct {
	Bytes  int64
	Inodes int64
	// Message says what was done, for logs.
	Message string
}
