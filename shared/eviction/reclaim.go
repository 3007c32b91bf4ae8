package eviction

import (
	"context"
	"encoding/json"
	"strings"
)

// Reclaimer reclaims a resource of the node without evicting pods.
type Reclaimer interface {
	// Reclaim runs one step and must be idempotent. It calls progress whenever it has
	// reclaimed something or wants to show that it is alive: the host gives up after 30 s
	// without a call. The result counts even if an error is returned with it.
	Reclaim(ctx context.Context, req ReclaimRequest, progress func(Reclaimed)) (Reclaimed, error)
}

// ReclaimStep is one step of node-level reclaim. It runs for the signals that list it and
// for other signals that share their filesystem in the current layout.
type ReclaimStep struct {
	// Name is unique within the signal; the built-in ones are "container-gc"
	// and "image-gc".
	// The same name in another signal means the same step.
	Name string
	// Layouts limits the step to some filesystem layouts; empty means all.
	Layouts []Layout
	// EnabledBy is the field of the plugin's configuration, such as "trim" or "disk.trim", that
	// enables the step when it is true. Without it the host does not list the step. Empty means
	// that the step is always enabled. The host observes the node before and after a step that has
	// EnabledBy, so that it runs only if it is needed.
	EnabledBy string
}

// Enabled reports whether the step is enabled by the plugin's configuration, which is JSON or empty.
func (s ReclaimStep) Enabled(config string) bool {
	if s.EnabledBy == "" {
		return true
	}
	value := json.RawMessage(config)
	for field := range strings.SplitSeq(s.EnabledBy, ".") {
		var fields map[string]json.RawMessage
		if json.Unmarshal(value, &fields) != nil { // the plugin reports what is wrong with it
			return false
		}
		value = fields[field]
	}
	return string(value) == "true"
}

// ReclaimRequest is the input of Reclaimer.
type ReclaimRequest struct {
	Pass uint64
	// Signal is one of the signals that list the step.
	Signal Signal
	Step   string
	// Pods are all pods that the host knows, with their states.
	Pods []PodPhase
	// AllSourcesReady: Pods is complete, so a pod that is not in it does not exist.
	AllSourcesReady bool
	// Shortfall is the amount, at least 1, that the signal lacks to satisfy its thresholds and
	// their minimum reclaim. 0 means that the host does not know.
	Shortfall int64
}

// PodPhase is the phase of a pod's life as container garbage collection sees it.
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

// Reclaimed holds what a step has reclaimed since it began.
type Reclaimed struct {
	Bytes  int64
	Inodes int64
	// Message says for the logs what was done.
	Message string
}
