package observe

import (
	"time"

	"github.com/evictd/evictd/host/internal/decision"
)

// SignalStatus is the last figure of a signal, and who has observed it.
type SignalStatus struct {
	decision.Observation

	// UnknownSince is the time since when the plugin in charge cannot observe the signal.
	UnknownSince time.Time `json:"unknownSince,omitzero"`
	// ObservedBy is the plugin that has the figure, or "evictd" while the host reads
	// it by itself.
	ObservedBy string `json:"observedBy,omitempty"`
	// Contradiction: a custom observer and the one that is asked beside it have said
	// different things for a while. The worse figure counts.
	Contradiction *Contradiction `json:"contradiction,omitempty"`
}
