package victim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/shared/eviction"
)

// The states of a victim.
const (
	StateKilling    = "killing"
	StateCleaningUp = "cleaning-up"
	StateFinished   = "finished"
	StateGivenUp    = "given-up"
	StateDryRun     = "dry-run"
)

// Reasons and messages of events and statuses around evictions, in the kubelet's words
// (pkg/kubelet/events, eviction and preemption).
const (
	// ReasonEvicted is the reason in the pod's event and status.
	ReasonEvicted = "Evicted"
	// ReasonExceededGracePeriod marks a kill that took longer than Timeout.
	ReasonExceededGracePeriod  = "ExceededGracePeriod"
	MessageExceededGracePeriod = "Container runtime did not kill the pod within specified grace period."
	// ReasonPreempting marks a pod that was killed for a critical one.
	ReasonPreempting = "Preempting"
	MessagePreempted = "Preempted in order to admit critical pod"
	// ReasonRefused marks a pod whose eviction was refused, so that the kubelet restarts it.
	ReasonRefused = "EvictionRefused"
)

// maxReasonBytes bounds the reason of a refusal in an event.
const maxReasonBytes = 800

// RefusedMessage returns the message of an event of ReasonRefused.
func RefusedMessage(why error) string {
	text := why.Error()
	return "The API server refuses the eviction of this pod, which its kubelet starts again: " + strings.ToValidUTF8(text[:min(len(text), maxReasonBytes)], "")
}

// A Kill is the kill of a pod from the decision until nothing is left to do for it, as the journal
// stores it.
type Kill struct {
	UID       string          `json:"uid"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Signal    eviction.Signal `json:"signal"`
	// GraceSeconds is the grace period decided on. In a kill of a former evictd it is the rest of it, at least
	// 1, so that a restart never lengthens it.
	GraceSeconds int64    `json:"graceSeconds"`
	Message      string   `json:"message"`
	SandboxIDs   []string `json:"sandboxIDs,omitempty"`
	ContainerIDs []string `json:"containerIDs,omitempty"`
	// EvictedAt is the time of the decision on the wall clock, used in all reports of the eviction
	// by any component. Generation and ResourceVersion are the pod's.
	EvictedAt       time.Time `json:"evictedAt,omitzero"`
	Generation      int64     `json:"generation,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	// Annotations of the event.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Record is the id of the decision's record, empty if none is kept.
	Record string `json:"record,omitempty"`
	// Limit: the pod exceeded its own limit; the node is not under pressure.
	Limit bool `json:"limit,omitempty"`
	// Steps done. Stopping: containers are being stopped through the runtime. Recorded: the API
	// server has the eviction. Announced: it has the event. Ended: the pod has ended or is no
	// longer awaited, and only the API server must still be informed.
	Stopping  bool `json:"stopping,omitempty"`
	Recorded  bool `json:"recorded,omitempty"`
	Announced bool `json:"announced,omitempty"`
	Ended     bool `json:"ended,omitempty"`
	// DecidedAt is when the kill was saved, on the clock of this process. The journal sets it.
	DecidedAt time.Time `json:"-"`
	// GraceEnds is the end of the grace period, on the same clock. The journal sets it.
	GraceEnds time.Time `json:"-"`
}

// A Victim is a pod from the decision to evict it until its end. As JSON it is an eviction in the
// status.
type Victim struct {
	Time time.Time `json:"time"` // of the decision
	// Record is the id of the decision's record, empty if none is kept.
	Record string   `json:"record,omitempty"`
	Pod    pods.Pod `json:"-"`
	Name   string   `json:"pod"`
	UID    string   `json:"uid"`
	// Signal is the label of the eviction in kubelet_evictions: a signal or a local storage limit.
	Signal eviction.Signal `json:"signal"`
	// GraceSeconds is the effective grace period. GraceOverrideSeconds is the grace period that the
	// eviction asked for, which the pod's own can only shorten.
	GraceSeconds         int64 `json:"graceSeconds"`
	GraceOverrideSeconds int64 `json:"-"`
	// Message and Annotations are those of the eviction event, in the kubelet's words.
	Message     string            `json:"message"`
	Annotations map[string]string `json:"-"`
	// Why is the reason for the pod's owner, in one line; empty if unknown.
	Why        string `json:"why,omitempty"`
	Ranker     string `json:"ranker,omitempty"`
	RankReason string `json:"rankReason,omitempty"`
	State      string `json:"state"`
	DryRun     bool   `json:"dryRun,omitempty"`
	// Resumed: decided by a former evictd and finished by this one.
	Resumed bool `json:"resumed,omitempty"`
	// Err is the error of the kill. The eviction counts anyway.
	Err string `json:"error,omitempty"`

	// Promised is the amount of Signal that the node is expected to get back, missing if unknown.
	Promised eviction.Figure `json:"-"`
	// Released is the amount of Signal that came back, missing while more is expected. ReliefAt is
	// when it reached nine tenths of Promised, zero if it did not.
	Released eviction.Figure `json:"-"`
	ReliefAt time.Time       `json:"-"`
	// Pressure: evicted for node pressure, not for a limit of the pod itself.
	Pressure bool `json:"-"`
	// Hard: evicted for a hard threshold or a limit of its own, so the grace period cannot be
	// shortened.
	Hard bool `json:"-"`
	// JournalledAt is when the kill was saved in the journal, KilledAt when Kill returned; zero
	// before.
	JournalledAt time.Time `json:"-"`
	KilledAt     time.Time `json:"-"`
	// gone: there is nothing to kill any more, only the end to wait for.
	gone bool
	// endedAt is when it stopped counting as terminating, zero before.
	endedAt time.Time
	// cleaning: its volumes are still being removed. leftover: it has finished and may have left
	// something behind.
	cleaning, leftover bool
	// shorten gets a shorter grace period in seconds, once, and is closed; then it is nil.
	shorten chan int64
}

// New returns a pod as a victim of s, with a grace period of at most graceOverrideSeconds.
func New(pod pods.Pod, s eviction.Signal, graceOverrideSeconds int64, message string, annotations map[string]string) Victim {
	grace := EffectiveGrace(pod.API.DeletionGracePeriodSeconds, &graceOverrideSeconds, pod.API.Spec.TerminationGracePeriodSeconds)
	return Victim{
		Time: time.Now(), Pod: pod, Name: pod.String(), UID: pod.Row.UID, Signal: s, State: StateKilling,
		GraceSeconds: grace, GraceOverrideSeconds: graceOverrideSeconds, Message: message, Annotations: annotations,
	}
}

// resumed returns the victim of a kill by a former host.
func resumed(j Kill, pod pods.Pod) *Victim {
	decided := j.EvictedAt
	if decided.IsZero() {
		decided = time.Now()
	}
	return &Victim{
		Time: decided, Pod: pod, Name: pod.String(), UID: j.UID, Signal: j.Signal, State: StateKilling, Resumed: true,
		GraceSeconds: j.GraceSeconds, GraceOverrideSeconds: j.GraceSeconds, Message: j.Message, Pressure: !j.Limit, Record: j.Record,
	}
}

// EndedAt returns when the pod had finished or was given up on; zero before.
func (v *Victim) EndedAt() time.Time { return v.endedAt }

func (v *Victim) ending() bool { return v.endedAt.IsZero() }

// matters reports whether anything still depends on v.
func (v *Victim) matters(now time.Time) bool {
	return v.ending() || v.cleaning || v.leftover || now.Sub(v.endedAt) <= endedFor
}

// within returns v with another grace period.
func (v Victim) within(seconds int64) Victim {
	v.GraceSeconds, v.GraceOverrideSeconds = seconds, seconds
	return v
}

// Journaled returns v's journal entry for a next host.
func (v *Victim) Journaled() Kill {
	k := Kill{
		UID: v.UID, Namespace: v.Pod.Row.Namespace, Name: v.Pod.Row.Name, Signal: v.Signal,
		GraceSeconds: v.GraceSeconds, Message: v.Message, SandboxIDs: v.Pod.SandboxIDs, ContainerIDs: v.Pod.ContainerIDs,
		EvictedAt: v.Time.Round(0), Limit: !v.Pressure, Record: v.Record, Annotations: v.eventAnnotations(),
	}
	if v.Pod.API != nil {
		k.Generation, k.ResourceVersion = v.Pod.API.Generation, v.Pod.API.ResourceVersion
	}
	return k
}

// eventAnnotations returns the kubelet's annotations, with the record's id and the reason if any.
func (v *Victim) eventAnnotations() map[string]string {
	if v.Record == "" {
		return v.Annotations
	}
	annotations := map[string]string{AnnotationRecord: v.Record}
	if v.Why != "" {
		annotations[AnnotationWhy] = v.Why
	}
	maps.Copy(annotations, v.Annotations)
	return annotations
}

// waitsForVolumes reports whether the kill takes effect only when the pod's volumes are gone, which
// the kubelet waits for (PodIsFinished): it removes them after the containers have ended. Memory
// and processes are back by then, except for memory-backed volumes.
func (v *Victim) waitsForVolumes() bool {
	d, _ := eviction.Builtin(v.Signal)
	return !v.Pressure || d.Condition == eviction.DiskPressure || slices.ContainsFunc(v.Pod.Row.Volumes, func(v eviction.Volume) bool {
		return d.Condition == eviction.MemoryPressure && v.Kind == "emptyDir" && v.Medium != ""
	})
}
