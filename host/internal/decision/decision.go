// Package decision has the document that each decision of evictd leaves behind, and each
// decision not to evict: what was known, who could go in which order and why, what
// followed. It holds all that the decision was made from, so that it can be explained, made
// again and made otherwise without the node.
//
// It is the document alone: package store keeps it on disk, package keep has it made of
// what the loop knows.
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
	// KindEviction is a pod that goes for a threshold, KindLimit one that goes for a
	// local-storage limit of its own.
	KindEviction = "eviction"
	KindLimit    = "limit"
	// KindNone is a threshold that asked for a pod when none could go.
	KindNone = "none"
	// KindReclaim is reclaim that was enough, so that no pod had to go.
	KindReclaim = "reclaim"
	// KindGrace is a threshold that has come to be met and waits for its grace period.
	KindGrace = "grace"
	// KindWaiting is a threshold that waits for what a former victim's end brings.
	KindWaiting = "waiting"
	// KindResumed is the kill of a former evictd, which was finished by this one. The record
	// of that one may have been lost with it.
	KindResumed = "resumed"
	// KindPreemption is a pod that was killed to make room for a critical one.
	KindPreemption = "preemption"
	// KindRanking is a ranking for a signal as of now, whether or not its threshold is met. No
	// pod is evicted, and it is not kept.
	KindRanking = "ranking"
)

// A Decision is the document of one. Amounts are in the base unit of their signal, times that
// end in MS are milliseconds from Time on, negative before it.
type Decision struct {
	Version int       `json:"version"`
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Time    time.Time `json:"time"`
	Node    string    `json:"node"`
	// Evictd is the version of evictd, Config identifies its configuration: two records
	// with the same were made with the same.
	Evictd string `json:"evictd"`
	Config string `json:"config,omitempty"`
	DryRun bool   `json:"dryRun,omitempty"`
	// Trigger made the pass run, Causes are those of its wakes.
	Trigger string `json:"trigger"`
	Causes  string `json:"causes,omitempty"`
	Pass    uint64 `json:"pass,omitempty"`
	// Pacing and RankVeto are the settings of these names, Layout is that of the
	// filesystems.
	Pacing   string `json:"pacing"`
	RankVeto string `json:"rankVeto"`
	Layout   string `json:"layout,omitempty"`
	// Now is the time that the thresholds' timers go by.
	Now time.Time `json:"now"`
	// Thresholds are all in force, in the order of the configuration.
	Thresholds   []Threshold   `json:"thresholds,omitempty"`
	Observations []Observation `json:"observations,omitempty"`
	Reclaim      []Reclaim     `json:"reclaim,omitempty"`
	// Ranker put the candidates in order.
	Ranker *Ranker `json:"ranker,omitempty"`
	// Candidates are in the order of the pod source. Order has their places in it, the
	// first to go first; one that is not in it was left out by the ranker.
	Candidates []Candidate `json:"candidates,omitempty"`
	Order      []int       `json:"order,omitempty"`
	// Protected are the pods that may not go at all.
	Protected []Protected `json:"protected,omitempty"`
	Victim    *Victim     `json:"victim,omitempty"`
	// Reason is why no pod goes, for people.
	Reason   string   `json:"reason,omitempty"`
	Timeline Timeline `json:"timeline"`
	// Signals are the last minutes before the decision.
	Signals []Series `json:"signals,omitempty"`
	// Growth says which pods used more of the signal than before, nil if that is not known.
	Growth *Growth `json:"growth,omitempty"`
	// Outcome has the kill and what came back, as far as it is known. The store keeps it beside the record.
	Outcome *Outcome `json:"outcome,omitempty"`
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

// A Protected is a pod that could not go, and by which rule.
type Protected struct {
	UID  string `json:"uid"`
	Pod  string `json:"pod"`
	Rule string `json:"rule"`
}

// A Victim is the pod that goes.
type Victim struct {
	UID          string `json:"uid"`
	Pod          string `json:"pod"`
	Signal       string `json:"signal"`
	GraceSeconds int64  `json:"graceSeconds"`
	// Message is the eviction's, as the pod's status has it.
	Message string `json:"message"`
	// Promised is the amount of the signal that the eviction was to give back, missing if not
	// known.
	Promised *int64 `json:"promised,omitempty"`
}

// A Timeline holds the times on the way to the decision, in ms. Unknown ones are missing.
type Timeline struct {
	// BeganMS is when the pass began, ObservedMS when the node was observed.
	BeganMS    float64 `json:"beganMS,omitempty"`
	ObservedMS float64 `json:"observedMS,omitempty"`
	// MeasuringMS is the time that measuring pods took, in ms.
	MeasuringMS float64 `json:"measuringMS,omitempty"`
	// JournalledMS is when the kill was on disk.
	JournalledMS float64 `json:"journalledMS,omitempty"`
}

// A Series holds the course of a signal, one sample a second.
type Series struct {
	Signal eviction.Signal `json:"signal"`
	// UntilMS is the time of the last sample.
	UntilMS float64 `json:"untilMS"`
	// Unit of the samples, which are multiples of it.
	Unit int64 `json:"unit"`
	// Available has the first sample and then how much each one is more than the one
	// before.
	Available []int64 `json:"available"`
}

// MS returns how much later than from at is, in milliseconds to a microsecond.
func MS(at, from time.Time) float64 { return float64(at.Sub(from).Microseconds()) / 1000 }

// Fall returns the most that was taken of a signal in a second, by the samples of d; 0 if it has none.
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

// A Growth says how much less of a signal is available than at an earlier time, and which pods
// use more.
type Growth struct {
	// SinceMS is the earlier time.
	SinceMS float64 `json:"sinceMS"`
	Lost    int64   `json:"lost"`
	// Pods sums up how much more pods use: what else was lost went to the rest of the node.
	// Protected: those that may not go are counted too, else they belong to the rest.
	Pods      int64 `json:"pods"`
	Protected bool  `json:"protected,omitempty"`
	// Most are the pods that grew most, the first by the most.
	Most []Grown `json:"most,omitempty"`
}

// A Grown is a pod that uses more than it did.
type Grown struct {
	UID string `json:"uid"`
	Pod string `json:"pod"`
	By  int64  `json:"by"`
}

// Values returns the samples, one a second, the last one at UntilMS.
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
	// KilledMS is when the kill returned, and with what. GoneMS is when nothing of the pod ran
	// any more, missing if it was given up on.
	KilledMS float64 `json:"killedMS,omitempty"`
	Err      string  `json:"error,omitempty"`
	GoneMS   float64 `json:"goneMS,omitempty"`
	// State of the victim in the end.
	State string `json:"state"`
	// Released of the signal was seen to come back, as far as it is owed to the victim's end. ReliefMS is when nine tenths of what was promised had come back.
	Released *int64  `json:"released,omitempty"`
	ReliefMS float64 `json:"reliefMS,omitempty"`
	// After has the samples of the signal for a few minutes after the decision.
	After *Series `json:"after,omitempty"`
	// Shadows holds the choices of shadows, which arrived after the decision.
	Shadows []Opinion `json:"shadows,omitempty"`
}

// With returns what is known of an outcome of which former, which may be nil, was kept before: samples
// and what shadows say may come alone, before or after the rest.
func (o *Outcome) With(former *Outcome) *Outcome {
	both := *o
	if former == nil {
		return &both
	}
	if o.State == "" {
		both = *former
	}
	both.After = cmp.Or(o.After, former.After)
	if both.Shadows = o.Shadows; len(o.Shadows) == 0 {
		both.Shadows = former.Shadows
	}
	return &both
}

// An Opinion is the choice that a shadow would have made in the place of the ranker.
type Opinion struct {
	Plugin  string `json:"plugin"`
	Version string `json:"version,omitempty"`
	// First is the pod that would have gone, missing for none. Place is that of the victim
	// in the shadow's order, 0 if it was left out.
	First  string  `json:"first,omitempty"`
	Place  int     `json:"place"`
	Err    string  `json:"error,omitempty"`
	TookMS float64 `json:"tookMS"`
}

// A Head summarizes a record in a list, and has the fields by which it is found.
type Head struct {
	ID     string    `json:"id"`
	Kind   string    `json:"kind"`
	Time   time.Time `json:"time"`
	Signal string    `json:"signal,omitempty"`
	Pod    string    `json:"pod,omitempty"`
	UID    string    `json:"uid,omitempty"`
	DryRun bool      `json:"dryRun,omitempty"`
	Reason string    `json:"reason,omitempty"`
	// Outcome is set in what is kept of an outcome, beside the ID.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Head returns the summary of d for a list of decisions.
func (d *Decision) Head() Head {
	h := Head{ID: d.ID, Kind: d.Kind, Time: d.Time, DryRun: d.DryRun, Reason: d.Reason}
	if t := d.Acted(); t != nil {
		h.Signal = string(t.Signal)
	}
	if v := d.Victim; v != nil {
		h.Pod, h.UID, h.Signal = v.Pod, v.UID, v.Signal
	}
	return h
}

// Named reports whether what is the id of the record, or the uid, namespace/name or name of
// its pod.
func (h *Head) Named(what string) bool {
	_, name, _ := strings.Cut(h.Pod, "/")
	return what != "" && (what == h.ID || what == h.UID || what == h.Pod || what == name)
}

// NewID returns an identifier for a decision at now, which sorts by time.
func NewID(now time.Time) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return now.UTC().Format("20060102T150405.000Z") + "-" + hex.EncodeToString(random[:])
}

const (
	// maxPods, maxSignals and maxSamples are more than any node has: a file may be anybody's.
	maxPods    = 20_000
	maxSignals = 1000
	maxSamples = 3600
)

// Decode reads a record, trusting nothing. Fields that it does not know are fine: a
// newer evictd may have written them.
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
