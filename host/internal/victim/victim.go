package victim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
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

// Reasons and texts of the events and statuses around evictions, as the kubelet
// words them (pkg/kubelet/events, eviction and preemption).
const (
	// ReasonEvicted marks the pod's event, and its status.
	ReasonEvicted = "Evicted"
	// ReasonExceededGracePeriod marks a kill that took longer than Timeout.
	ReasonExceededGracePeriod  = "ExceededGracePeriod"
	MessageExceededGracePeriod = "Container runtime did not kill the pod within specified grace period."
	// ReasonPreempting marks a pod that made room for a critical one.
	ReasonPreempting = "Preempting"
	MessagePreempted = "Preempted in order to admit critical pod"
	// ReasonRefused marks a pod that was to be evicted and that the kubelet starts again.
	ReasonRefused = "EvictionRefused"
)

// maxReasonBytes bounds what an event says of a refusal.
const maxReasonBytes = 800

// RefusedMessage returns the message of an event of ReasonRefused.
func RefusedMessage(why error) string {
	text := why.Error()
	return "The API server refuses the eviction of this pod, which its kubelet starts again: " + strings.ToValidUTF8(text[:min(len(text), maxReasonBytes)], "")
}

// A Victim is a pod from the decision that it goes until it has ended. As JSON it is
// an eviction of the status.
type Victim struct {
	Time time.Time `json:"time"` // of the decision
	// Record is the id of the decision's record, empty if none is kept.
	Record string   `json:"record,omitempty"`
	Pod    pods.Pod `json:"-"`
	Name   string   `json:"pod"`
	UID    string   `json:"uid"`
	// Signal as which kubelet_evictions counts the eviction: a signal or a local-storage limit.
	Signal eviction.Signal `json:"signal"`
	// GraceSeconds is the grace period to end the pod with. GraceOverrideSeconds is
	// what the eviction asked for, which the pod's own can only shorten.
	GraceSeconds         int64 `json:"graceSeconds"`
	GraceOverrideSeconds int64 `json:"-"`
	// Message and Annotations are the eviction's, as the kubelet words them.
	Message     string            `json:"message"`
	Annotations map[string]string `json:"-"`
	// Why is the reason for the owner of the pod, in one line; empty if none is known.
	Why        string `json:"why,omitempty"`
	Ranker     string `json:"ranker,omitempty"`
	RankReason string `json:"rankReason,omitempty"`
	State      string `json:"state"`
	DryRun     bool   `json:"dryRun,omitempty"`
	// Resumed: decided by a former evictd and finished by this one.
	Resumed bool `json:"resumed,omitempty"`
	// Err is the error of the kill. The eviction counts all the same.
	Err string `json:"error,omitempty"`

	// Promised is the amount of Signal that the node is expected to get back, missing if not
	// known.
	Promised eviction.Figure `json:"-"`
	// Released of Signal was seen to come back, missing as long as more is expected.
	// ReliefAt is when that was nine tenths of what was promised, zero if it was not.
	Released eviction.Figure `json:"-"`
	ReliefAt time.Time       `json:"-"`
	// Pressure: the node is why the pod must go, not a limit of its own.
	Pressure bool `json:"-"`
	// Hard: for a hard threshold or a limit of its own, so nothing is left to be
	// shortened.
	Hard bool `json:"-"`
	// JournalledAt is when the kill was in the journal, KilledAt when it returned. Both are zero
	// before that.
	JournalledAt time.Time `json:"-"`
	KilledAt     time.Time `json:"-"`
	// gone: there is nothing to kill any more, only its end is waited for.
	gone bool
	// endedAt is when its end was waited for no longer, zero while it is ending.
	endedAt time.Time
	// cleaning: its volumes are still being removed. leftover: it has finished and may have
	// left something behind.
	cleaning, leftover bool
	// shorten is closed to have the pod killed with the shortest grace, and is nil
	// when it was.
	shorten chan struct{}
}

// New returns a pod as the victim of s, with a grace period of so many seconds at
// most.
func New(pod pods.Pod, s eviction.Signal, graceOverrideSeconds int64, message string, annotations map[string]string) Victim {
	grace := EffectiveGrace(pod.API.DeletionGracePeriodSeconds, &graceOverrideSeconds, pod.API.Spec.TerminationGracePeriodSeconds)
	return Victim{
		Time: time.Now(), Pod: pod, Name: pod.String(), UID: pod.Row.UID, Signal: s, State: StateKilling,
		GraceSeconds: grace, GraceOverrideSeconds: graceOverrideSeconds, Message: message, Annotations: annotations,
	}
}

// resumed returns the victim of a former host.
func resumed(j rundir.Kill, pod pods.Pod) *Victim {
	decided := j.EvictedAt
	if decided.IsZero() {
		decided = time.Now()
	}
	return &Victim{
		Time: decided, Pod: pod, Name: pod.String(), UID: j.UID, Signal: j.Signal, State: StateKilling, Resumed: true,
		GraceSeconds: j.GraceSeconds, GraceOverrideSeconds: j.GraceSeconds, Message: j.Message, Pressure: !j.Limit, Record: j.Record,
	}
}

// EndedAt returns when nothing of v ran any more, or it was given up on; zero before that.
func (v *Victim) EndedAt() time.Time { return v.endedAt }

func (v *Victim) ending() bool { return v.endedAt.IsZero() }

// matters reports whether something depends on what became of v.
func (v *Victim) matters(now time.Time) bool {
	return v.ending() || v.cleaning || v.leftover || now.Sub(v.endedAt) <= endedFor
}

// shortest returns v with the shortest grace period.
func (v Victim) shortest() Victim {
	v.GraceSeconds, v.GraceOverrideSeconds = policy.HardGraceSeconds, policy.HardGraceSeconds
	return v
}

// Journaled returns the record of v for a next host.
func (v *Victim) Journaled() rundir.Kill {
	k := rundir.Kill{
		UID: v.UID, Namespace: v.Pod.Row.Namespace, Name: v.Pod.Row.Name, Signal: v.Signal,
		GraceSeconds: v.GraceSeconds, Message: v.Message, SandboxIDs: v.Pod.SandboxIDs, ContainerIDs: v.Pod.ContainerIDs,
		EvictedAt: v.Time.Round(0), Limit: !v.Pressure, Record: v.Record, Annotations: v.eventAnnotations(),
	}
	if v.Pod.API != nil {
		k.Generation, k.ResourceVersion = v.Pod.API.Generation, v.Pod.API.ResourceVersion
	}
	return k
}

// eventAnnotations returns the kubelet's, and if there is a record its name and why the pod goes.
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

// waitsForVolumes reports whether the node has its answer to the kill only when the pod's
// volumes are gone, as the kubelet waits for (PodIsFinished): their owner removes them after
// the containers have ended. Memory and processes are back by then, but for what the pod
// has in memory-backed volumes.
func (v *Victim) waitsForVolumes() bool {
	d, _ := eviction.Builtin(v.Signal)
	return !v.Pressure || d.Condition == eviction.DiskPressure || slices.ContainsFunc(v.Pod.Row.Volumes, func(v eviction.Volume) bool {
		return d.Condition == eviction.MemoryPressure && v.Kind == "emptyDir" && v.Medium != ""
	})
}
