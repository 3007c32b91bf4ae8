package replay

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Decisions records the actions of a manager in a scenario, step by step.
type Decisions struct {
	SchemaVersion int `json:"schemaVersion"`
	// Oracle names the manager that decided.
	Oracle string `json:"oracle"`
	// Scenario is the name of the scenario.
	Scenario string `json:"scenario"`
	// ConfigError is why the configuration was refused; there are no steps then. ConfigErrors holds
	// all errors of which the manager may report any one.
	ConfigError  string         `json:"configError,omitempty"`
	ConfigErrors []string       `json:"configErrors,omitempty"`
	Steps        []StepDecision `json:"steps"`
}

// StepDecision holds the conclusions and actions of one pass.
type StepDecision struct {
	Now metav1.Time `json:"now"`
	// Error is why the pass failed.
	Error string `json:"error,omitempty"`
	// Observed holds the thresholds that are met regardless of their grace period, Met those whose
	// grace period is over, Actionable those of them with figures newer than in the previous pass.
	// All three are informative only.
	Observed   []ObservedThreshold `json:"observed,omitempty"`
	Met        []Threshold         `json:"met,omitempty"`
	Actionable []Threshold         `json:"actionable,omitempty"`
	// NodeConditions holds the reported conditions, sorted.
	NodeConditions []string `json:"nodeConditions,omitempty"`
	MemoryPressure bool     `json:"memoryPressure"`
	DiskPressure   bool     `json:"diskPressure"`
	PIDPressure    bool     `json:"pidPressure"`
	// SummaryCalls holds the distinct numbers of summary calls of the outcomes.
	SummaryCalls []int `json:"summaryCalls,omitempty"`
	// Outcomes holds the possible actions of the pass where the kubelet decides at random, the
	// preferred one first. Our decisions have exactly one.
	Outcomes []Outcome `json:"outcomes"`
	Admit    []Admit   `json:"admit,omitempty"`
}

// Threshold is a threshold as text.
type Threshold struct {
	Signal string `json:"signal"`
	// Operator is LessThan; a threshold without an operator is never met.
	Operator string `json:"operator,omitempty"`
	// Quantity or Percentage is the value, the latter as the shortest decimal of a float32: 0.1 is
	// 10 %.
	Quantity    string `json:"quantity,omitempty"`
	Percentage  string `json:"percentage,omitempty"`
	GracePeriod string `json:"gracePeriod,omitempty"`
	MinReclaim  string `json:"minReclaim,omitempty"`
}

// ObservedThreshold is a threshold that is met, with the time since when.
type ObservedThreshold struct {
	Threshold

	FirstObservedAt metav1.Time `json:"firstObservedAt"`
}

// Outcome holds the actions of a pass.
type Outcome struct {
	// Signals holds the signal label of each eviction in the metrics.
	Signals []string `json:"signals,omitempty"`
	// ReclaimCalls lists the steps of node-level reclaim that ran.
	ReclaimCalls []string   `json:"reclaimCalls,omitempty"`
	Evictions    []Eviction `json:"evictions,omitempty"`
	Events       []Event    `json:"events,omitempty"`
	// Returned lists the uids of pods whose clean-up is awaited.
	Returned []string `json:"returned,omitempty"`
	// TiedPods rank equal to the victim, which is one of them. TieTruncated: each of them has an
	// outcome, but not all are recorded.
	TiedPods     []string `json:"tiedPods,omitempty"`
	TieTruncated bool     `json:"tieTruncated,omitempty"`
	// CleanupWaitSeconds is the time that the manager waited for the clean-up.
	CleanupWaitSeconds *float64 `json:"cleanupWaitSeconds,omitempty"`
	// Panic is the value with which the recorded manager crashed.
	Panic string `json:"panic,omitempty"`
}

// Eviction is a call of the kill function with its effect on the pod's status.
type Eviction struct {
	UID                string `json:"uid"`
	Namespace          string `json:"namespace"`
	Name               string `json:"name"`
	GracePeriodSeconds int64  `json:"gracePeriodSeconds"`
	IsEvicted          bool   `json:"isEvicted"`
	Phase              string `json:"phase"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	// Conditions that changed, without their transition times.
	Conditions []v1.PodCondition `json:"conditions,omitempty"`
	KillError  string            `json:"killError,omitempty"`
}

// Event is an event on the node or on a pod.
type Event struct {
	// Kind is Node or Pod.
	Kind        string            `json:"kind"`
	UID         string            `json:"uid"`
	Name        string            `json:"name"`
	Type        string            `json:"type"`
	Reason      string            `json:"reason"`
	Message     string            `json:"message"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Admit is the answer to a pod that asked to be admitted.
type Admit struct {
	UID    string `json:"uid"`
	Name   string `json:"name"`
	Admit  bool   `json:"admit"`
	Reason string `json:"reason,omitempty"`
	// Message has its conditions sorted.
	Message string `json:"message,omitempty"`
}
