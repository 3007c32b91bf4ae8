package replay

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/decision"
)

// SchemaVersion is the version of the format.
const SchemaVersion = 1

// A Trace is the content of a trace file: what happened and, if it was recorded,
// what was decided.
type Trace struct {
	Scenario  *Scenario  `json:"scenario"`
	Decisions *Decisions `json:"decisions,omitempty"`
}

// The filesystem layouts of a scenario.
const (
	// LayoutShared has everything on one filesystem.
	LayoutShared = "shared"
	// LayoutImageFs has images and writable layers on a filesystem of their own.
	LayoutImageFs = "imagefs"
	// LayoutContainerFs has images on a filesystem of their own, writable layers
	// on the kubelet's.
	LayoutContainerFs = "containerfs"
)

// A Scenario is the input of a manager. It is an open loop: an evicted pod stays among the
// active ones until a step removes it.
type Scenario struct {
	SchemaVersion int    `json:"schemaVersion"`
	Name          string `json:"name"`
	Description   string `json:"description,omitempty"`
	// Rule is the rule of the kubelet that the scenario is about.
	Rule string `json:"rule,omitempty"`
	// Quirks names accidents of the kubelet that the recorded decisions depend on.
	// They need not be reproduced.
	Quirks []string `json:"quirks,omitempty"`
	// Seed is the number that a generated scenario was made from.
	Seed      int64       `json:"seed,omitempty"`
	StartTime metav1.Time `json:"startTime"`
	NodeName  string      `json:"nodeName"`
	Config    Config      `json:"config"`
	// FilesystemLayout is one of the Layout constants.
	FilesystemLayout string `json:"filesystemLayout"`
	// Pods are active before the first step, in the order in which the source of
	// pods lists them.
	Pods  []*v1.Pod `json:"pods"`
	Steps []Step    `json:"steps"`
	// Record from which the scenario was made, nil if it was not: see FromRecord.
	Record *decision.Decision `json:"-"`
}

// Config is the configuration in force, with the keys of KubeletConfiguration.
// Nothing is filled in: no thresholds means none.
type Config struct {
	EvictionHard                     map[string]string `json:"evictionHard,omitempty"`
	EvictionSoft                     map[string]string `json:"evictionSoft,omitempty"`
	EvictionSoftGracePeriod          map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	EvictionMinimumReclaim           map[string]string `json:"evictionMinimumReclaim,omitempty"`
	EvictionPressureTransitionPeriod metav1.Duration   `json:"evictionPressureTransitionPeriod"`
	EvictionMaxPodGracePeriod        int32             `json:"evictionMaxPodGracePeriod"`
	EnforceNodeAllocatable           []string          `json:"enforceNodeAllocatable,omitempty"`
	LocalStorageCapacityIsolation    bool              `json:"localStorageCapacityIsolation"`
	// Plugins are settings of plugins, by name.
	Plugins map[string]Plugin `json:"plugins,omitempty"`
	// Compatibility is the version of Kubernetes whose kubelet decides alike, such as 1.37; of a
	// trace it is that of the oracle.
	Compatibility string `json:"compatibility,omitempty"`
	// FeatureGates of the kubelet that are not at their default.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// Plugin is the configuration of one plugin in a scenario.
type Plugin struct {
	// Config is the plugin's own configuration.
	Config json.RawMessage `json:"config,omitempty"`
}

// A Step is one pass and what changes before it. In this order: the clock is
// advanced, pods are removed, replaced and added, the pass runs, pods ask to be
// admitted.
type Step struct {
	Note           string  `json:"note,omitempty"`
	AdvanceSeconds float64 `json:"advanceSeconds"`
	// RemovePods are uids.
	RemovePods []string `json:"removePods,omitempty"`
	// UpdatePods take the place of the pods with their uids.
	UpdatePods []*v1.Pod `json:"updatePods,omitempty"`
	// AddPods come after all others.
	AddPods []*v1.Pod `json:"addPods,omitempty"`
	// Summary is the kubelet's stats summary, which the first call of the pass
	// returns. If there is none, it is the one of the step before: stale figures.
	Summary json.RawMessage `json:"summary,omitempty"`
	// SummaryError makes the first call of the pass fail.
	SummaryError string `json:"summaryError,omitempty"`
	// DiskInfoError and ContainerFsInfoError make it unknown whether images, or
	// writable layers, have their own filesystem.
	DiskInfoError        string   `json:"diskInfoError,omitempty"`
	ContainerFsInfoError string   `json:"containerFsInfoError,omitempty"`
	Reclaim              *Reclaim `json:"reclaim,omitempty"`
	// KillErrors are the errors of kills, by uid; "*" is every pod.
	KillErrors map[string]string `json:"killErrors,omitempty"`
	// CleanupSeconds is the time after which the pods that this pass evicted are
	// cleaned up. Without it no pass waits for that.
	CleanupSeconds *float64 `json:"cleanupSeconds,omitempty"`
	// Admit are pods that ask to be admitted after the pass.
	Admit []*v1.Pod `json:"admit,omitempty"`
}

// Reclaim is the result of node-level reclaim, if the pass runs it.
type Reclaim struct {
	ContainerGCError string `json:"containerGCError,omitempty"`
	ImageGCError     string `json:"imageGCError,omitempty"`
	// SummaryAfter is the result of the second call of the pass; if there is none, that of the
	// first counts.
	SummaryAfter json.RawMessage `json:"summaryAfter,omitempty"`
	// SummaryAfterError makes the second call fail.
	SummaryAfterError string `json:"summaryAfterError,omitempty"`
}

// Advance returns the time that passes before the step.
func (s *Step) Advance() time.Duration { return seconds(s.AdvanceSeconds) }

// Cleanup returns the time that the clean-up of evicted pods takes, false if nothing
// waits for it.
func (s *Step) Cleanup() (time.Duration, bool) {
	if s.CleanupSeconds == nil {
		return 0, false
	}
	return seconds(*s.CleanupSeconds), true
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
