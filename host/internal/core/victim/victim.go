package victim

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	// ReasonPodEvicted is the reason in the event of the pod's controller.
	ReasonPodEvicted = "PodEvicted"
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
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Signal is the label of the eviction in kubelet_evictions: a signal or a local storage limit.
	Signal eviction.Signal `json:"signal"`
	// GraceSeconds is the effective grace period. In a kill of a former evictd it is the rest of it, at least
	// 1, so that a restart never lengthens it.
	GraceSeconds int64 `json:"graceSeconds"`
	// Message of the event and of the pod's status, in the kubelet's words.
	Message      string   `json:"message"`
	SandboxIDs   []string `json:"sandboxIDs,omitempty"`
	ContainerIDs []string `json:"containerIDs,omitempty"`
	// EvictedAt is the time of the decision, used in all reports of the eviction by any component.
	// Generation and ResourceVersion are the pod's.
	EvictedAt       time.Time `json:"evictedAt,omitzero"`
	Generation      int64     `json:"generation,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	// Annotations of the event.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Owner is the pod's controller if it gets an event, too.
	Owner *metav1.OwnerReference `json:"owner,omitempty"`
	// Record is the id of the decision's record, empty if none is kept.
	Record string `json:"record,omitempty"`
	// Limit: the pod exceeded its own limit; the node is not under pressure.
	Limit bool `json:"limit,omitempty"`
	Steps
	// DecidedAt is when the kill was saved, on the clock of this process. The journal sets it.
	DecidedAt time.Time `json:"-"`
	// GraceEnds is the end of the grace period, on the same clock. The journal sets it.
	GraceEnds time.Time `json:"-"`
}

// Steps are those done of a kill. Stopping: containers are being stopped through the runtime. Recorded:
// the API server has the eviction. Announced: it has the event. Ended: the pod has ended or is no longer
// awaited, and only the API server must still be informed.
type Steps struct {
	Stopping  bool `json:"stopping,omitempty"`
	Recorded  bool `json:"recorded,omitempty"`
	Announced bool `json:"announced,omitempty"`
	Ended     bool `json:"ended,omitempty"`
}

// Key returns the pod's namespace and name.
func (k *Kill) Key() string { return k.Namespace + "/" + k.Name }

// A Victim is a pod from the decision to evict it until its end.
type Victim struct {
	// Kill is the victim's entry in the journal, the steps done as a former evictd left them.
	Kill

	Pod pods.Pod
	// GraceOverrideSeconds is the grace period that the eviction asked for, which the pod's own can
	// only shorten.
	GraceOverrideSeconds int64
	// Why is the reason for the pod's owner, in one line; empty if unknown.
	Why                string
	Ranker, RankReason string
	State              string
	DryRun             bool
	// Resumed: decided by a former evictd and finished by this one.
	Resumed bool
	// Err is the error of the kill. The eviction counts anyway.
	Err string

	// Promised is the amount of Signal that the node is expected to get back, missing if unknown.
	Promised eviction.Figure
	// Released is the amount of Signal that came back, missing while more is expected. ReliefAt is
	// when it reached nine tenths of Promised, zero if it did not.
	Released eviction.Figure
	ReliefAt time.Time
	// Hard: evicted for a hard threshold or a limit of its own, so the grace period cannot be
	// shortened.
	Hard bool
	// JournalledAt is when the kill was saved in the journal, KilledAt when Kill returned; zero
	// before.
	JournalledAt, KilledAt time.Time
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

// An Eviction is a victim as the status shows it.
type Eviction struct {
	Time         time.Time       `json:"time"`
	Record       string          `json:"record,omitempty"`
	Pod          string          `json:"pod"`
	UID          string          `json:"uid"`
	Signal       eviction.Signal `json:"signal"`
	GraceSeconds int64           `json:"graceSeconds"`
	Message      string          `json:"message"`
	Why          string          `json:"why,omitempty"`
	Ranker       string          `json:"ranker,omitempty"`
	RankReason   string          `json:"rankReason,omitempty"`
	State        string          `json:"state"`
	DryRun       bool            `json:"dryRun,omitempty"`
	Resumed      bool            `json:"resumed,omitempty"`
	Err          string          `json:"error,omitempty"`
}

// New returns a pod as a victim of s, with a grace period of at most graceOverrideSeconds.
func New(pod pods.Pod, s eviction.Signal, graceOverrideSeconds int64, message string, annotations map[string]string) Victim {
	return Victim{
		Kill: Kill{
			UID: pod.Row.UID, Namespace: pod.Row.Namespace, Name: pod.Row.Name, Signal: s, Message: message, Annotations: annotations,
			GraceSeconds: EffectiveGrace(pod.API.DeletionGracePeriodSeconds, &graceOverrideSeconds, pod.API.Spec.TerminationGracePeriodSeconds),
			SandboxIDs:   pod.SandboxIDs, ContainerIDs: pod.ContainerIDs,
			EvictedAt: time.Now(), Generation: pod.API.Generation, ResourceVersion: pod.API.ResourceVersion,
			Owner: ownerOf(pod.API),
		},
		Pod: pod, State: StateKilling, GraceOverrideSeconds: graceOverrideSeconds,
	}
}

// owners are the controllers that get events, as in the admission policy.
var owners = []string{"apps/v1/ReplicaSet", "apps/v1/StatefulSet", "apps/v1/DaemonSet", "batch/v1/Job", "v1/ReplicationController"}

// maxOwnerBytes bounds the name and the uid of an owner: the API server does not.
const maxOwnerBytes = 253

// ownerOf returns the controller of p if it gets events, else nil.
func ownerOf(p *v1.Pod) *metav1.OwnerReference {
	o := metav1.GetControllerOf(p)
	if o == nil || max(len(o.Name), len(o.UID)) > maxOwnerBytes || !slices.Contains(owners, o.APIVersion+"/"+o.Kind) {
		return nil
	}
	return o
}

// EndedAt returns when the pod had finished or was given up on; zero before.
func (v *Victim) EndedAt() time.Time { return v.endedAt }

func (v *Victim) ending() bool { return v.endedAt.IsZero() }

// within returns v with another grace period.
func (v Victim) within(seconds int64) Victim {
	v.GraceSeconds, v.GraceOverrideSeconds = seconds, seconds
	return v
}

// EffectiveGrace returns the grace period in seconds that a kubelet uses
// (calculateEffectiveGracePeriod in its pod_workers.go): the shorter of
// metadata.deletionGracePeriodSeconds and the eviction's override, the spec's only if both are nil,
// and at least 1. An override of 0 counts as set; like in the kubelet, a deletion grace of 0 yields
// to a longer override. The maximum is 68 years.
func EffectiveGrace(deletion, override, spec *int64) int64 {
	grace := cmp.Or(deletion, override, spec, new(int64))
	if deletion != nil && override != nil && (*deletion == 0 || *override < *deletion) {
		grace = override
	}
	return min(max(*grace, 1), math.MaxInt32)
}
