package loop

import (
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/eviction"
)

// An Outcome is what one pass saw, concluded and did, for who asked for the pass:
// an embedding program, a replay. It is not changed after it was returned.
type Outcome struct {
	// Pass numbers the pass, Time is the embedder's clock in it.
	Pass uint64    `json:"pass"`
	Time time.Time `json:"time"`
	// Signals are the observations, by name of the signal.
	Signals []SignalStatus `json:"signals,omitempty"`
	// Thresholds are those that are met, in the order of the configuration.
	Thresholds []MetThreshold `json:"thresholds,omitempty"`
	// Conditions are those reported after the pass, by name.
	Conditions []eviction.Condition `json:"conditions,omitempty"`
	// Chosen is the index in Thresholds of the one that was acted on, -1 if none
	// was.
	Chosen int `json:"chosen"`
	// Reclaim is what node-level reclaim did, step by step. ReclaimSufficed: every
	// threshold was satisfied after it, no pod had to go.
	Reclaim         []ReclaimOutcome `json:"reclaim,omitempty"`
	ReclaimSufficed bool             `json:"reclaimSufficed,omitempty"`
	// Ranker made the Ranking, which has the candidates, first to go first.
	Ranker  string       `json:"ranker,omitempty"`
	Ranking []RankedPod  `json:"ranking,omitempty"`
	Evicted []EvictedPod `json:"evicted,omitempty"`
}

// MetThreshold is a threshold that a pass found to be met, whatever its grace
// period.
type MetThreshold struct {
	Signal eviction.Signal `json:"signal"`
	// Quantity or Percentage is the value: a canonical quantity, or the part of
	// the capacity as the shortest text of its float32 (0.1 is 10 %).
	Quantity   string `json:"quantity,omitempty"`
	Percentage string `json:"percentage,omitempty"`
	// GracePeriod is empty for a hard threshold. MinReclaim is empty for none.
	GracePeriod     string    `json:"gracePeriod,omitempty"`
	MinReclaim      string    `json:"minReclaim,omitempty"`
	FirstObservedAt time.Time `json:"firstObservedAt"`
	// GraceOver: it was met for its whole grace period. Actionable: and the
	// figures are newer than those of the last pass.
	GraceOver  bool `json:"graceOver"`
	Actionable bool `json:"actionable"`
}

// ReclaimOutcome is what came of one step of node-level reclaim.
type ReclaimOutcome struct {
	Step string `json:"step"`
	// By is the plugin, or the embedding program, that ran the step.
	By          string `json:"by"`
	BytesFreed  int64  `json:"bytesFreed"`
	InodesFreed int64  `json:"inodesFreed"`
	Message     string `json:"message,omitempty"`
	Err         string `json:"error,omitempty"`
}

// RankedPod is a candidate in its place, with the figures that put it there.
type RankedPod struct {
	UID      string `json:"uid"`
	Pod      string `json:"pod"`
	Priority int32  `json:"priority"`
	// State is "measured", "no stats" or "unknown".
	State string `json:"state"`
	// Usage and Request are in the base unit of the signal. Request is 0 where the
	// signal has none.
	Usage   int64 `json:"usage"`
	Request int64 `json:"request"`
	// Reason is the ranker's, if it gave one.
	Reason string `json:"reason,omitempty"`
}

// EvictedPod is an eviction that a pass decided on.
type EvictedPod struct {
	Pod pods.Pod `json:"-"`
	// Label is what the eviction counts as in kubelet_evictions: a signal or a
	// local-storage limit.
	Label string `json:"label"`
	// GraceSeconds is the override that the kill got.
	GraceSeconds int64  `json:"graceSeconds"`
	Message      string `json:"message"`
	// Err is what the kill returned. The eviction counts all the same.
	Err string `json:"error,omitempty"`
}
