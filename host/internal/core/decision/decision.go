// Package decision defines the record of a decision to evict a pod or none. It contains all inputs
// of the decision, so that the decision can be explained, repeated and varied without the node.
//
// It defines only the document: package store keeps it on disk, package recorder makes it from the
// loop's state.
package decision

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// Version of the document's format. New fields do not change it.
const Version = 1

// The kinds of decisions.
const (
	// KindEviction is an eviction for a threshold, KindLimit one for exceeding the pod's own local
	// storage limit.
	KindEviction = "eviction"
	KindLimit    = "limit"
	// KindNone is a threshold that required an eviction when no pod could be evicted.
	KindNone = "none"
	// KindReclaim is a reclaim that was enough, so that no pod was evicted.
	KindReclaim = "reclaim"
	// KindGrace is a threshold that was newly met and waits for its grace period.
	KindGrace = "grace"
	// KindWaiting is a threshold that waits for the relief of a former victim.
	KindWaiting = "waiting"
	// KindResumed is a kill by a former evictd that this one finished. The original record may be
	// lost.
	KindResumed = "resumed"
	// KindPreemption is a pod that was killed for a critical one.
	KindPreemption = "preemption"
	// KindOther is an eviction by another program, such as the kubelet, which has its reasons.
	KindOther = "other"
	// KindKernel is a kill by the kernel's OOM killer.
	KindKernel = "kernel"
	// KindRanking is the current ranking for a signal, whether or not its threshold is met. No pod
	// is evicted, and it is not stored.
	KindRanking = "ranking"
)

// A Decision is the record of one decision. Amounts are in the base unit of their signal. Fields
// that end in MS are milliseconds since Time, negative before it.
type Decision struct {
	Version int       `json:"version"`
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Time    time.Time `json:"time"`
	DryRun  bool      `json:"dryRun,omitempty"`
	Victim  *Victim   `json:"victim,omitempty"`
	ByOthers
	// Reason is why no pod is evicted, in words.
	Reason string `json:"reason,omitempty"`
	// Outcome holds the kill and its relief, as far as known.
	Outcome *Outcome `json:"outcome,omitempty"`
	// Thresholds holds all in force, in the order of the configuration.
	Thresholds []Threshold `json:"thresholds,omitempty"`
	// Ranker is the ranker that ordered the candidates.
	Ranker *Ranker `json:"ranker,omitempty"`
	// Node follows all that a Head has, and the ranker, so that a list is made from the beginning of a record.
	Node string `json:"node"`
	// Evictd is the version of evictd, Config identifies its configuration: equal for equal
	// configurations.
	Evictd string `json:"evictd"`
	Config string `json:"config,omitempty"`
	// Trigger is why the pass ran, Causes lists the causes of its wakes.
	Trigger string `json:"trigger"`
	Causes  string `json:"causes,omitempty"`
	Pass    uint64 `json:"pass,omitempty"`
	// Pacing and RankVeto are the settings of these names, Layout is that of the filesystems.
	Pacing   string `json:"pacing"`
	RankVeto string `json:"rankVeto"`
	Layout   string `json:"layout,omitempty"`
	// Now is the time on the clock of the thresholds' timers.
	Now          time.Time     `json:"now"`
	Observations []Observation `json:"observations,omitempty"`
	// Inputs holds those that were not new.
	Inputs  []Input   `json:"inputs,omitempty"`
	Reclaim []Reclaim `json:"reclaim,omitempty"`
	// Candidates are in the order of the pod source. Order holds indexes into it, the first to be
	// evicted first; a candidate that it lacks was left out by the ranker.
	Candidates []Candidate `json:"candidates,omitempty"`
	Order      []int       `json:"order,omitempty"`
	// Protected lists the pods that may not be evicted at all.
	Protected []Protected `json:"protected,omitempty"`
	Timeline  Timeline    `json:"timeline"`
	Before
}

// ByOthers describes what evictd has not decided.
type ByOthers struct {
	// By names the program that evicted the pod of KindOther, and the kernel.
	By string `json:"by,omitempty"`
	// Kernel describes the kill of KindKernel.
	Kernel *Kernel `json:"kernel,omitempty"`
}

// Before is the course of the last minutes before a decision.
type Before struct {
	Signals []Series `json:"signals,omitempty"`
	// Growth lists the pods that use more of the signal than before, nil if unknown.
	Growth *Growth `json:"growth,omitempty"`
	// Marks lists what happened on the node since the first sample, the oldest first.
	Marks []Mark `json:"marks,omitempty"`
	// Usage holds samples of pods' use of the signal, the oldest first: of the pods that Curves
	// names, which are the victim and those that grew most.
	Usage  []UsageSample `json:"usage,omitempty"`
	Curves []string      `json:"curves,omitempty"`
}

// A Mark is a change on the node, or in its evictd, that may explain a decision.
type Mark struct {
	// What is one of the marks' names, Text says more.
	What string `json:"what"`
	Text string `json:"text"`
	// MS is when it happened or began, UntilMS when it ended. Equal: it took no time.
	MS      float64 `json:"ms"`
	UntilMS float64 `json:"untilMS"`
	// Former holds the thresholds that a reload or a restart replaced.
	Former []Threshold `json:"former,omitempty"`
}

// CauseAfter is the time after a start of evictd from which on its samples show what takes a resource.
const CauseAfter = 10 * time.Second

// The marks.
const (
	// MarkStart is a start of evictd, MarkReload another configuration, MarkPlugin a start or an end of a
	// plugin, MarkStandby a signal observed by another plugin than before, MarkWait a wait for a victim.
	MarkStart   = "start"
	MarkReload  = "reload"
	MarkPlugin  = "plugin"
	MarkStandby = "standby"
	MarkWait    = "wait"
)

// A UsageSample holds what pods used of a signal at a time.
type UsageSample struct {
	MS float64 `json:"ms"`
	// First names the pod that would have been evicted first then, by the kubelet's order; empty if unknown.
	First string `json:"first,omitempty"`
	// Used is by place in Curves, -1 if unknown.
	Used []int64 `json:"used,omitempty"`
}

// An Input is an input of the decision that was not new, such as a list of the container runtime.
type Input struct {
	Name string `json:"name"`
	// AgeSeconds is the age of the last good answer, which was used; 0 if there was none.
	AgeSeconds float64 `json:"ageSeconds,omitempty"`
	// Reason is why there was no newer one.
	Reason string `json:"reason"`
}

// String describes i in one line.
func (i Input) String() string {
	if i.AgeSeconds == 0 {
		return i.Name + " not known: " + i.Reason
	}
	return fmt.Sprintf("%s of %.3gs before: %s", i.Name, i.AgeSeconds, i.Reason)
}

// A Reclaim is the result of one step of node-level reclaim.
type Reclaim struct {
	Step string `json:"step"`
	// By is the plugin, or the embedding program, that ran the step.
	By          string `json:"by"`
	BytesFreed  int64  `json:"bytesFreed"`
	InodesFreed int64  `json:"inodesFreed"`
	Message     string `json:"message,omitempty"`
	// TookSeconds is the duration of the step.
	TookSeconds float64 `json:"tookSeconds"`
	// NotRun is why the step was not run, empty if it was.
	NotRun string `json:"notRun,omitempty"`
	Err    string `json:"error,omitempty"`
}

// A Ranker names the plugin that made the order.
type Ranker struct {
	// Name is the plugin's, or "evictd" for the host itself.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Custom: the order is not the kubelet's.
	Custom bool `json:"custom,omitempty"`
}

// A Protected is a pod that could not be evicted, with the rule that protects it.
type Protected struct {
	UID  string `json:"uid"`
	Pod  string `json:"pod"`
	Rule string `json:"rule"`
}

// A Victim is the evicted pod.
type Victim struct {
	UID          string `json:"uid"`
	Pod          string `json:"pod"`
	Signal       string `json:"signal"`
	GraceSeconds int64  `json:"graceSeconds"`
	// Message is the eviction message in the pod's status.
	Message string `json:"message"`
	// Owner is its controller as Kind/name, empty without one.
	Owner string `json:"owner,omitempty"`
	// Used is its use of the signal, missing if unknown.
	Used *int64 `json:"used,omitempty"`
	// Promised is the amount of the signal that the eviction was expected to free, missing if
	// unknown.
	Promised *int64 `json:"promised,omitempty"`
	// Why says how far a pod is over a limit of its own, and what would have spared it.
	Why string `json:"why,omitempty"`
}

// A Part is the use of a volume, of logs or of writable layers of a pod.
type Part struct {
	// Name says what it is, such as "emptyDir scratch" or "logs".
	Name string `json:"name"`
	Used int64  `json:"used"`
}

// The scopes of a kernel kill, in which memory had run out.
const (
	ScopeNode      = "node"
	ScopeKubepods  = "kubepods"
	ScopeClass     = "class"
	ScopePod       = "pod"
	ScopeContainer = "container"
	ScopeUnknown   = "unknown"
)

// Scopes lists them.
var Scopes = []string{ScopeNode, ScopeKubepods, ScopeClass, ScopePod, ScopeContainer, ScopeUnknown}

// A Kernel is a kill by the kernel's OOM killer.
type Kernel struct {
	// Scope names where memory had run out. LimitBytes is the limit there, 0 for the node or if it is not known.
	Scope      string `json:"scope"`
	LimitBytes int64  `json:"limitBytes,omitempty"`
	// Container is the name of the container, or its id in the runtime, empty if it is not known.
	Container string `json:"container,omitempty"`
	// Processes is the number of processes that were killed.
	Processes int64 `json:"processes"`
	// SinceMS is the last look before: they were killed later.
	SinceMS float64 `json:"sinceMS"`
	// UsedBytes is the pod's memory at the last sample of pods, RequestBytes its request; missing if not known.
	UsedBytes    *int64 `json:"usedBytes,omitempty"`
	RequestBytes *int64 `json:"requestBytes,omitempty"`
}

// A Timeline holds the times of the steps before the decision, in ms. Unknown ones are missing.
type Timeline struct {
	// BeganMS is when the pass began, ObservedMS when the node was observed.
	BeganMS    float64 `json:"beganMS,omitempty"`
	ObservedMS float64 `json:"observedMS,omitempty"`
	// MeasuringMS is the duration of measuring pods, in ms.
	MeasuringMS float64 `json:"measuringMS,omitempty"`
	// JournalledMS is when the kill was saved to disk.
	JournalledMS float64 `json:"journalledMS,omitempty"`
}

// A Series holds samples of a signal, one per second, rounded down to a multiple of Unit.
type Series struct {
	Signal eviction.Signal `json:"signal"`
	// UntilMS is the time of the last sample.
	UntilMS float64 `json:"untilMS"`
	// Unit divides all samples.
	Unit int64 `json:"unit"`
	// Available holds the first sample, followed by the differences between consecutive samples.
	Available []int64 `json:"available"`
	// Repeated holds the places of samples that repeat the one before: there was none in that second.
	Repeated []int `json:"repeated,omitempty"`
}

// MS returns the milliseconds from from to at, with microsecond resolution.
func MS(at, from time.Time) float64 { return float64(at.Sub(from).Microseconds()) / 1000 }

// Fall returns the largest decrease of a signal in a second of d's samples; 0 for none.
func (d *Decision) Fall(s eviction.Signal) (most int64) {
	for i := range d.Signals {
		if of := &d.Signals[i]; of.Signal == s && len(of.Available) > 0 {
			for _, more := range of.Available[1:] {
				most = max(most, -more*of.Unit)
			}
		}
	}
	return most
}

// A Growth says how much less of a signal is available than at an earlier time, and which pods use
// more.
type Growth struct {
	// SinceMS is the earlier time.
	SinceMS float64 `json:"sinceMS"`
	Lost    int64   `json:"lost"`
	// Pods is the total growth of pods: the rest of Lost was used elsewhere on the node. Protected:
	// protected pods are included; otherwise they count as elsewhere.
	Pods      int64 `json:"pods"`
	Protected bool  `json:"protected,omitempty"`
	// Most lists the pods that grew most, in descending order.
	Most []Grown `json:"most,omitempty"`
}

// A Grown is a pod whose usage has grown.
type Grown struct {
	UID string `json:"uid"`
	Pod string `json:"pod"`
	By  int64  `json:"by"`
}

// Values returns the samples, one per second, the last one at UntilMS.
func (s *Series) Values() []int64 {
	values, at := make([]int64, len(s.Available)), int64(0)
	for i, d := range s.Available {
		at += d
		values[i] = at * s.Unit
	}
	return values
}

// An Outcome records the kill of an eviction and the relief that followed.
type Outcome struct {
	ID string `json:"id"`
	// KilledMS is when the kill returned, Err its error. GoneMS is when nothing of the pod ran any
	// more, missing if it was given up.
	KilledMS float64 `json:"killedMS,omitempty"`
	Err      string  `json:"error,omitempty"`
	GoneMS   float64 `json:"goneMS,omitempty"`
	// State is the final state of the victim.
	State string `json:"state"`
	// Released came back of the signal, as far as due to the victim's end. ReliefMS is when that
	// reached nine tenths of Promised.
	Released *int64  `json:"released,omitempty"`
	ReliefMS float64 `json:"reliefMS,omitempty"`
	// After holds samples of the signal for a few minutes after the decision.
	After *Series `json:"after,omitempty"`
}

// With returns o merged with former, the outcome stored before, which may be nil: samples
// may be stored separately, before or after the rest.
func (o *Outcome) With(former *Outcome) *Outcome {
	both := *o
	if former == nil {
		return &both
	}
	if o.State == "" {
		both = *former
	}
	both.After = cmp.Or(o.After, former.After)
	return &both
}

// A Head summarizes a record in a list, and holds the fields used for searching.
type Head struct {
	ID     string    `json:"id"`
	Kind   string    `json:"kind"`
	Time   time.Time `json:"time"`
	Signal string    `json:"signal,omitempty"`
	Pod    string    `json:"pod,omitempty"`
	UID    string    `json:"uid,omitempty"`
	DryRun bool      `json:"dryRun,omitempty"`
	Reason string    `json:"reason,omitempty"`
	// By names who evicted the pod of KindOther, Message is that of the eviction.
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
	// Scope names where memory had run out, of KindKernel.
	Scope string `json:"scope,omitempty"`
	// Owner and Used are the victim's.
	Owner string `json:"owner,omitempty"`
	Used  *int64 `json:"used,omitempty"`
	// Episode and Again are set by Episodes.
	Episode string `json:"episode,omitempty"`
	Again   int    `json:"again,omitempty"`
	// Outcome is set by package store, without samples.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Head returns the summary of d.
func (d *Decision) Head() Head {
	h := Head{ID: d.ID, Kind: d.Kind, Time: d.Time, DryRun: d.DryRun, Reason: d.Reason}
	if t := d.Acted(); t != nil {
		h.Signal = string(t.Signal)
	}
	if d.Kernel != nil {
		h.Scope = d.Kernel.Scope
	}
	if v := d.Victim; v != nil {
		h.Pod, h.UID, h.Signal, h.Owner, h.Used = v.Pod, v.UID, v.Signal, v.Owner, v.Used
		if h.By = d.By; h.By != "" {
			h.Message = v.Message
		}
	}
	return h
}

// Named reports whether what is the id of the record, or the uid, namespace/name or name of its
// pod.
func (h *Head) Named(what string) bool {
	_, name, _ := strings.Cut(h.Pod, "/")
	return what != "" && (what == h.ID || what == h.UID || what == h.Pod || what == name)
}

// idTime is the layout of the time that an identifier begins with.
const idTime = "20060102T150405.000Z"

// NewID returns an identifier for a decision at now. Identifiers sort by time.
func NewID(now time.Time) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return now.UTC().Format(idTime) + "-" + hex.EncodeToString(random[:])
}

// IDTime returns the time of an identifier, zero for another text.
func IDTime(id string) time.Time {
	text, _, _ := strings.Cut(id, "-")
	at, _ := time.Parse(idTime, text) // zero on error
	return at
}

const (
	// maxPods, maxSignals and maxSamples exceed any node: a file may come from anywhere.
	maxPods    = 20_000
	maxSignals = 1000
	maxSamples = 3600
)

// Decode reads and validates a record from an untrusted source. It ignores unknown fields, which a
// newer evictd may have written.
func Decode(data []byte) (*Decision, error) {
	var r Decision
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("no record of a decision: %w", err)
	}
	switch {
	case r.Version != Version:
		return nil, fmt.Errorf("version: %d, want %d: a record of a decision", r.Version, Version)
	case r.ID == "":
		return nil, fmt.Errorf("id: is missing, want one such as %q", NewID(time.Unix(0, 0)))
	case len(r.Candidates) > maxPods:
		return nil, fmt.Errorf("candidates: %d, want at most %d", len(r.Candidates), maxPods)
	case len(r.Thresholds) > maxSignals:
		return nil, fmt.Errorf("thresholds: %d, want at most %d", len(r.Thresholds), maxSignals)
	case len(r.Observations) > maxSignals:
		return nil, fmt.Errorf("observations: %d, want at most %d", len(r.Observations), maxSignals)
	}
	ranked := make([]bool, len(r.Candidates))
	for i, at := range r.Order {
		if at < 0 || at >= len(ranked) || ranked[at] {
			return nil, fmt.Errorf("order[%d]: %d, want the place of a candidate below %d, each once", i, at, len(ranked))
		}
		ranked[at] = true
	}
	for i := range r.Signals {
		if n := len(r.Signals[i].Available); n > maxSamples {
			return nil, fmt.Errorf("signals[%d].available: %d samples, want at most %d", i, n, maxSamples)
		}
	}
	return &r, nil
}
