package observe

import (
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
)

// SignalStatus is the last figure of a signal, with its observer.
type SignalStatus struct {
	decision.Observation

	// UnknownSince is when the plugin in charge became unable to observe the signal.
	UnknownSince time.Time `json:"unknownSince,omitzero"`
	// ObservedBy is the plugin that observed the figure, or "evictd" while the host reads it
	// itself.
	ObservedBy string `json:"observedBy,omitempty"`
	// WokenBy is the cause of the last wake for the signal's condition, such as poll, memcg, psi or
	// memory.events.
	WokenBy string `json:"wokenBy,omitempty"`
	// Contradiction: a custom observer and the one asked beside it have disagreed for a while. The
	// worse figure counts.
	Contradiction *Contradiction `json:"contradiction,omitempty"`
}
