package eviction

import (
	"context"
	"time"
)

// A Plugin is a set of capabilities for one or more signals. A nil field is a
// capability that the plugin lacks. The SDK serves such a value; the host holds
// one whose fields are calls to the plugin's process.
//
// Every method may be called concurrently with every other one. A method gets
// a context with a deadline and must return soon after it ends; the host does
// not wait for a method that does not.
type Plugin struct {
	// Name identifies the plugin in logs; the host knows it by its file name.
	Name string
	// Version is the plugin's own version, free text.
	Version string
	// Signals are the signals served, each with what is offered for it.
	Signals []SignalSpec
	// WantLabels and WantAnnotations are the keys whose values the plugin wants
	// to see in pod rows; others are not sent.
	WantLabels      []string
	WantAnnotations []string
	// OwnsLayout says that Observe also reports the filesystem layout.
	OwnsLayout bool

	// CheckHost may refuse a host that lacks something the plugin needs.
	CheckHost func(Host) error

	Configurer Configurer
	Observer   Observer
	Measurer   Measurer
	Watcher    Watcher
	Ranker     Ranker
	Reclaimer  Reclaimer
}

// SignalSpec is what a plugin offers for one signal.
type SignalSpec struct {
	Signal Signal
	// Capabilities narrows what is offered for this signal. Zero means all that
	// the plugin has.
	Capabilities Capability
	// Definition is required for an own signal and absent for a built-in one.
	Definition *Definition
	// ReclaimSteps are the node-level reclaim steps of this signal, in the order
	// in which they run.
	ReclaimSteps []ReclaimStep
}

// Capability is a set of things that a plugin can do for a signal.
type Capability uint8

// The capabilities.
const (
	CanObserve Capability = 1 << iota
	CanMeasure
	CanWatch
	CanRank
	CanReclaim
)

// Has reports whether c includes all of d.
func (c Capability) Has(d Capability) bool { return c&d == d }

// Host describes the host to a plugin that is asked to describe itself.
type Host struct {
	// Version is the host's version, for messages.
	Version string
	// Features are names of optional parts of the contract that the host has.
	// A plugin that needs one refuses a host that lacks it.
	Features []string
}

// Configurer takes the facts of the node and the plugin's own configuration.
type Configurer interface {
	// Configure is called once before the first observation and again when
	// either changes. An error leaves the former configuration in force.
	Configure(ctx context.Context, req ConfigureRequest) error
}

// ConfigureRequest is the input of Configurer.
type ConfigureRequest struct {
	Node NodeFacts
	// Config is the plugin's part of the host's configuration as JSON; empty
	// when there is none. An unknown field in it must be an error.
	Config []byte
}

// NodeFacts is what the host knows of its node and every plugin may need.
type NodeFacts struct {
	NodeName string
	// RootDir is where the node's root filesystem is seen, "/" outside of
	// containers. /proc and /sys are looked for below it.
	RootDir string
	// CgroupRoot is the kubelet's --cgroup-root: the parent of "kubepods", as a
	// path inside each cgroup hierarchy. "/" by default.
	CgroupRoot string
	// CgroupDriver is "cgroupfs" or "systemd": how pod cgroups are named.
	CgroupDriver string
	// KubeletRootDir holds the directories of pods, /var/lib/kubelet by default.
	KubeletRootDir string
	// PodLogsDir holds the logs of pods, /var/log/pods by default.
	PodLogsDir string
	// RuntimeEndpoint and ImageEndpoint are the CRI sockets, with unix://.
	RuntimeEndpoint string
	ImageEndpoint   string
	// SummarySocket is the private socket on which the host serves the kubelet's
	// stats summary; empty when plugins read their native sources.
	SummarySocket string
}

// A View tells on which side of node-level reclaim a pass looks.
type View uint8

// The views of a pass. Ranking and messages use ViewBefore.
const (
	ViewBefore View = iota + 1
	ViewAfterReclaim
)

// Observer reads the node's figures.
type Observer interface {
	// Observe reads each requested signal now. It is called in every pass and
	// must be cheap, fresh and independent of the number of pods. A signal that
	// is left out of the reply counts as unknown.
	Observe(ctx context.Context, req ObserveRequest) (ObserveReply, error)
}

// ObserveRequest is the input of Observer.
type ObserveRequest struct {
	// Pass numbers the host's passes; it grows and is never reused by a host.
	Pass    uint64
	View    View
	Signals []Signal
}

// ObserveReply is the output of Observer.
type ObserveReply struct {
	Observations []Observation
	// Layout is set by the plugin that owns the layout, else nil.
	Layout *LayoutReport
}

// ObservationState tells the three kinds of an observation apart.
type ObservationState uint8

const (
	// Unknown is a failed, late or not asked observation: nothing is concluded
	// from it and no timer moves.
	Unknown ObservationState = iota
	// Observed carries figures.
	Observed
	// Absent is the source saying that it has no such figure: the threshold is
	// not met and its timers are forgotten.
	Absent
)

// Observation is one signal's figure at one time.
type Observation struct {
	Signal Signal
	State  ObservationState
	// Available and Capacity are in the signal's base unit. Available may be
	// negative (pid.available can be).
	Available int64
	Capacity  int64
	// Time is the wall time of the sample. Zero when the source has none.
	Time time.Time
	// BootNanos is the CLOCK_BOOTTIME reading of the sample, 0 if not known. It
	// decides which of two samples is newer when both have it.
	BootNanos int64
	// Components explain Available, for people: names and figures.
	Components []Component
	// Err says why the state is Unknown.
	Err string
}

// Component is one figure that an observation was computed from.
type Component struct {
	Name  string
	Value int64
}

// LayoutReport says which filesystems the node has.
type LayoutReport struct {
	// ImageFs: images do not live on the kubelet's filesystem.
	ImageFs bool
	// ContainerFs: writable layers do not live with the images.
	ContainerFs bool
	// ImageFsErr and ContainerFsErr say why the answer is not known.
	ImageFsErr     string
	ContainerFsErr string
}

// Measurer reads figures of pods.
type Measurer interface {
	// Measure calls emit once for each requested pod that it has an answer for,
	// in any order and from any goroutine until Measure returns; emit is safe
	// for concurrent use and keeps nothing that the caller may not reuse.
	// Answers given before the deadline count even if Measure never returns. A
	// pod that got none by then is unknown.
	Measure(ctx context.Context, req MeasureRequest, emit func(Measurement)) error
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
	Pass    uint64
	View    View
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

// Measurement is what is known of one pod's use.
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

// Watcher waits for the kernel to say that a threshold may have been crossed.
type Watcher interface {
	// Watch calls wake for each notification until ctx ends. A wake is a hint to
	// look, never a decision, and may be spurious; missing one is the failure.
	// The host holds one Watch at a time: a new one replaces the old one.
	Watch(ctx context.Context, req WatchRequest, wake func(Wake)) error
}

// WatchRequest is the input of Watcher.
type WatchRequest struct {
	Thresholds []WatchThreshold
}

// WatchThreshold is a threshold to watch.
type WatchThreshold struct {
	Signal    Signal
	Threshold Threshold
}

// Threshold is the point below which a signal is under pressure: an amount in
// the signal's base unit, or a fraction of the observed capacity. Exactly one of
// them is set; an amount of zero with Fraction zero is never met.
type Threshold struct {
	Amount   int64
	Fraction float32
}

// Of returns the threshold as an amount, for a capacity. The kubelet multiplies
// the float32 fraction as float64 and truncates (api.GetThresholdQuantity).
func (t Threshold) Of(capacity int64) int64 {
	if t.Fraction != 0 {
		return int64(float64(capacity) * float64(t.Fraction))
	}
	return t.Amount
}

// Wake is one notification.
type Wake struct {
	Signal Signal
	// Cause is for logs: "memcg", "poll", "psi".
	Cause string
}

// A Ranker decides who goes first.
type Ranker interface {
	// Rank returns candidates, most evictable first. One that is left out is
	// not to be evicted. Rank does no I/O and must not retain or change req.
	Rank(ctx context.Context, req RankRequest) ([]Ranked, error)
}

// RankRequest is the input of Ranker.
type RankRequest struct {
	Pass      uint64
	Signal    Signal
	Unit      Unit
	Threshold Threshold
	// Available and Capacity are as observed; Shortfall is what must be freed to
	// satisfy the threshold and its minimum reclaim, at least 1.
	Available int64
	Capacity  int64
	Shortfall int64
	// Hard: the threshold has no grace period.
	Hard bool
	// Candidates are in the order of the pod source. Pods that must not be
	// evicted are never among them.
	Candidates []Candidate
}

// Candidate is a pod that may be evicted and what it uses.
type Candidate struct {
	Pod         Pod
	Measurement Measurement
}

// Ranked is one entry of a ranking.
type Ranked struct {
	UID string
	// Reason is for log and record, optional, never shown in the eviction
	// message.
	Reason string
}

// Reclaimer frees a resource of the node without evicting a pod.
type Reclaimer interface {
	// Reclaim runs one step. It is idempotent. It calls progress whenever it has
	// freed something or is known to be alive: without it the host gives up
	// after 30 s. The result counts also when an error is returned with it.
	Reclaim(ctx context.Context, req ReclaimRequest, progress func(Reclaimed)) (Reclaimed, error)
}

// ReclaimStep is one step of node-level reclaim.
type ReclaimStep struct {
	// Name is unique within the plugin; "container-gc" and "image-gc" are the
	// built-in ones.
	Name string
	// Layouts limits the step to some filesystem layouts; empty means all.
	Layouts []Layout
}

// Layout is one arrangement of the node's filesystems.
type Layout uint8

// The layouts that the kubelet knows.
const (
	// LayoutShared has everything on the kubelet's filesystem.
	LayoutShared Layout = iota + 1
	// LayoutImageFs has images and writable layers on a filesystem of their own.
	LayoutImageFs
	// LayoutContainerFs has images on their own, writable layers on the
	// kubelet's filesystem.
	LayoutContainerFs
)

// ReclaimRequest is the input of Reclaimer.
type ReclaimRequest struct {
	Pass   uint64
	Signal Signal
	Step   string
	// Pods are the pods that the host knows, with their states.
	Pods []PodPhase
	// AllSourcesReady: Pods is complete, so a pod not in it does not exist.
	AllSourcesReady bool
}

// PodPhase is how far a pod's life has come, as container GC needs it.
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

// Reclaimed is what a step has freed so far.
type Reclaimed struct {
	Bytes  int64
	Inodes int64
	// Message says what was done, for logs.
	Message string
}
