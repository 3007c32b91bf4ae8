package replay

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/decision"
)

// SchemaVersion is the version of the trace format.
const SchemaVersion = 1

// A Trace is the content of a trace file: a scenario and, if recorded, the decisions.
type Trace struct {
	Scenario  *Scenario  `json:"scenario"`
	Decisions *Decisions `json:"decisions,omitempty"`
}

// The filesystem layouts of a scenario.
const (
	// LayoutShared has everything on one filesystem.
	LayoutShared = "shared"
	// LayoutImageFs has images and writable layers on a dedicated filesystem.
	LayoutImageFs = "imagefs"
	// LayoutContainerFs has images on a dedicated filesystem, writable layers on the kubelet's.
	LayoutContainerFs = "containerfs"
)

// A Scenario is the input of a manager. It does not react: an evicted pod stays active until a step
// removes it.
type Scenario struct {
	SchemaVersion int    `json:"schemaVersion"`
	Name          string `json:"name"`
	Description   string `json:"description,omitempty"`
	// Rule is the kubelet's rule that the scenario exercises.
	Rule string `json:"rule,omitempty"`
	// Quirks names flaws of the kubelet that the recorded decisions depend on and that need not be
	// reproduced.
	Quirks []string `json:"quirks,omitempty"`
	// Seed generated the scenario.
	Seed      int64       `json:"seed,omitempty"`
	StartTime metav1.Time `json:"startTime"`
	NodeName  string      `json:"nodeName"`
	Config    Config      `json:"config"`
	// FilesystemLayout is one of the Layout constants.
	FilesystemLayout string `json:"filesystemLayout"`
	// Pods are active before the first step, in the order of the pod source.
	Pods  []*v1.Pod `json:"pods"`
	Steps []Step    `json:"steps"`
	// Record is the record that the scenario was made from, nil if none: see FromRecord.
	Record *decision.Decision `json:"-"`
	// Changed: its thresholds are others than those of the record.
	Changed bool `json:"-"`
}

// Config is the configuration with the keys of KubeletConfiguration. It has no defaults: no
// thresholds means none.
type Config struct {
	EvictionHard                     map[string]string `json:"evictionHard,omitempty"`
	EvictionSoft                     map[string]string `json:"evictionSoft,omitempty"`
	EvictionSoftGracePeriod          map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	EvictionMinimumReclaim           map[string]string `json:"evictionMinimumReclaim,omitempty"`
	EvictionPressureTransitionPeriod metav1.Duration   `json:"evictionPressureTransitionPeriod"`
	EvictionMaxPodGracePeriod        int32             `json:"evictionMaxPodGracePeriod"`
	EnforceNodeAllocatable           []string          `json:"enforceNodeAllocatable,omitempty"`
	LocalStorageCapacityIsolation    bool              `json:"localStorageCapacityIsolation"`
	// Plugins holds settings of plugins, by name.
	Plugins map[string]Plugin `json:"plugins,omitempty"`
	// Compatibility is the Kubernetes version whose kubelet decides the same way, such as 1.37; in
	// a trace it is the oracle's.
	Compatibility string `json:"compatibility,omitempty"`
	// FeatureGates holds the kubelet's gates with non-default values.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// Plugin is the configuration of one plugin in a scenario.
type Plugin struct {
	// Config is the plugin's own configuration.
	Config json.RawMessage `json:"config,omitempty"`
}

// A Step is one pass with the changes before it. In this order: the clock is advanced, pods are
// removed, replaced and added, the pass runs, pods ask for admission.
type Step struct {
	Note           string  `json:"note,omitempty"`
	AdvanceSeconds float64 `json:"advanceSeconds"`
	// RemovePods lists uids.
	RemovePods []string `json:"removePods,omitempty"`
	// UpdatePods replace the pods with the same uids.
	UpdatePods []*v1.Pod `json:"updatePods,omitempty"`
	// AddPods are appended to the others.
	AddPods []*v1.Pod `json:"addPods,omitempty"`
	// Summary is the kubelet's stats summary returned by the first call of the pass. If missing,
	// the previous step's is returned: stale figures.
	Summary json.RawMessage `json:"summary,omitempty"`
	// SummaryError makes the first call of the pass fail.
	SummaryError string `json:"summaryError,omitempty"`
	// DiskInfoError and ContainerFsInfoError make the query for a dedicated image filesystem, or
	// container filesystem, fail.
	DiskInfoError        string   `json:"diskInfoError,omitempty"`
	ContainerFsInfoError string   `json:"containerFsInfoError,omitempty"`
	Reclaim              *Reclaim `json:"reclaim,omitempty"`
	// KillErrors holds the errors of kills, by uid; "*" means every pod.
	KillErrors map[string]string `json:"killErrors,omitempty"`
	// CleanupSeconds is the duration of the clean-up of pods evicted in this pass. Without it no
	// pass waits for that.
	CleanupSeconds *float64 `json:"cleanupSeconds,omitempty"`
	// Admit lists pods that ask for admission after the pass.
	Admit []*v1.Pod `json:"admit,omitempty"`
}

// Reclaim is the result of node-level reclaim, if the pass runs it.
type Reclaim struct {
	ContainerGCError string `json:"containerGCError,omitempty"`
	ImageGCError     string `json:"imageGCError,omitempty"`
	// SummaryAfter is the result of the second call of the pass; if missing, that of the first.
	SummaryAfter json.RawMessage `json:"summaryAfter,omitempty"`
	// SummaryAfterError makes the second call fail.
	SummaryAfterError string `json:"summaryAfterError,omitempty"`
}

// Advance returns how far the clock is advanced before the step.
func (s *Step) Advance() time.Duration { return seconds(s.AdvanceSeconds) }

// Cleanup returns how long the clean-up of evicted pods takes, false if nothing waits for it.
func (s *Step) Cleanup() (time.Duration, bool) {
	if s.CleanupSeconds == nil {
		return 0, false
	}
	return seconds(*s.CleanupSeconds), true
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
