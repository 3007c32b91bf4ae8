package loop

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// A Snapshot is what the loop knew after its last pass. It is never changed
// after it is published.
type Snapshot struct {
	// Passes counts the passes. Time is the end of the last one that concluded
	// something, zero if none has.
	Passes     uint64               `json:"passes"`
	Time       time.Time            `json:"time,omitzero"`
	Conditions []eviction.Condition `json:"conditions"`
	Thresholds []ThresholdStatus    `json:"thresholds"`
	Signals    []SignalStatus       `json:"signals"`
	Evictions  []victim.Victim      `json:"evictions"`
	// Waiting says why no further pod goes for thresholds that are met, by signal.
	Waiting []policy.Wait `json:"waiting,omitempty"`
	// Layout is that of the node's filesystems: shared, imagefs or containerfs, or
	// empty while it is not known.
	Layout string `json:"layout,omitempty"`
	// AssignProblems are assignments of one filesystem to two plugins, which only the
	// layout has shown.
	AssignProblems []string `json:"assignProblems,omitempty"`
	// Unmanaged are pods that run without a manifest: shown, never evicted.
	Unmanaged []string `json:"unmanagedPods,omitempty"`
	// Problems are manifests that could not be used.
	Problems []string `json:"manifestProblems,omitempty"`
}

// ThresholdStatus is one configured threshold and how it stands.
type ThresholdStatus struct {
	Signal      eviction.Signal `json:"signal"`
	Value       string          `json:"value"`
	GracePeriod string          `json:"gracePeriod,omitempty"`
	Hard        bool            `json:"hard"`
	// Own is set for a signal that is not the kubelet's.
	Own *OwnSignal `json:"own,omitempty"`
	// Met: under the threshold now, whatever the grace period.
	Met bool `json:"met"`
	// MetSince is when it was first seen to be met.
	MetSince *time.Time `json:"metSince,omitempty"`
	// Unobserved: the signal could not be observed, the threshold has no effect.
	Unobserved bool `json:"unobserved,omitempty"`
}

// OwnSignal is what a plugin says that its own signal is. All of it is empty as
// long as no plugin brings the signal.
type OwnSignal struct {
	Unit      eviction.Unit      `json:"unit"`
	Format    eviction.Format    `json:"format"`
	Resource  string             `json:"resource"`
	Condition eviction.Condition `json:"condition"`
	// ReliefTime is how long what a victim has freed may take to show.
	ReliefTime string `json:"reliefTime,omitempty"`
}

func ownSignal(d eviction.Definition) *OwnSignal {
	own := &OwnSignal{Unit: d.Unit, Format: d.Format, Resource: d.Resource, Condition: d.Condition}
	if d.Condition != "" {
		own.ReliefTime = policy.ReliefTime(d).String()
	}
	return own
}

// SignalStatus is the last figure of a signal, in its base unit.
type SignalStatus struct {
	Signal     eviction.Signal  `json:"signal"`
	State      string           `json:"state"`
	Available  int64            `json:"available"`
	Capacity   int64            `json:"capacity"`
	Time       time.Time        `json:"time"`
	Components map[string]int64 `json:"components,omitempty"`
	Err        string           `json:"error,omitempty"`
	// ObservedBy is the plugin that has the figure, or "evictd" while the host reads
	// it by itself.
	ObservedBy string `json:"observedBy,omitempty"`
	// Contradiction: a custom observer and the one that is asked beside it have said
	// different things for a while. The worse figure counts.
	Contradiction *Contradiction `json:"contradiction,omitempty"`
}

// The states of a signal.
const (
	StateObserved = "observed"
	StateAbsent   = "absent"
	StateUnknown  = "unknown"
)

// Snapshot returns what the loop knew after its last pass. It may be called from
// anywhere.
func (l *Loop) Snapshot() *Snapshot {
	s := *l.snapshot.Load()
	s.Evictions = l.victims.History()
	return &s
}

// Under reports whether c is in force. It may be called from anywhere.
func (l *Loop) Under(c eviction.Condition) bool {
	return slices.Contains(l.snapshot.Load().Conditions, c)
}

func (l *Loop) publish(p *pass) {
	next := *l.snapshot.Load()
	next.Passes = l.finished
	if p.concluded {
		next.Time = time.Now()
		next.Conditions = append([]eviction.Condition{}, p.assessment.Conditions...)
		next.Thresholds = l.thresholdStatus(p.assessment)
		next.Waiting = l.victims.Relief.Waiting()
		next.Signals = l.showObservers(signalStatus(next.Signals, p.observed), p)
	}
	next.Layout = ""
	if l.filesystems.layout != 0 {
		next.Layout = l.filesystems.layout.String()
	}
	next.AssignProblems = l.filesystems.split
	l.snapshot.Store(&next)
}

// forget drops a signal that no threshold names any more.
func (l *Loop) forget(gone eviction.Signal) {
	next := *l.snapshot.Load()
	next.Signals = slices.DeleteFunc(slices.Clone(next.Signals), func(s SignalStatus) bool { return s.Signal == gone })
	l.snapshot.Store(&next)
	delete(l.unobserved, gone)
	delete(l.observers, gone)
	delete(l.blind, gone)
	delete(l.latest, gone)
	l.victims.Relief.Forget(gone)
	delete(l.contradict.bySignal, gone)
}

func (l *Loop) thresholdStatus(a policy.Assessment) []ThresholdStatus {
	since := make(map[policy.Key]time.Time, len(a.Observed))
	for _, o := range a.Observed {
		since[o.Threshold.Key()] = o.FirstObservedAt
	}
	out := make([]ThresholdStatus, 0, len(l.filesystems.inForce))
	for _, t := range l.filesystems.inForce {
		s := ThresholdStatus{Signal: t.Signal, Value: t.Value.String(), Hard: t.Hard(), Unobserved: l.unobserved[t.Signal] != ""}
		if _, builtin := eviction.Builtin(t.Signal); !builtin {
			s.Own = ownSignal(t.Definition())
		}
		if !t.Hard() {
			s.GracePeriod = t.GracePeriod.String()
		}
		if first, ok := since[t.Key()]; ok {
			s.Met, s.MetSince = true, &first
		}
		out = append(out, s)
	}
	return out
}

// signalStatus replaces in former what was observed now.
func signalStatus(former []SignalStatus, observed map[eviction.Signal]eviction.Observation) []SignalStatus {
	bySignal := make(map[eviction.Signal]SignalStatus, len(former))
	for _, s := range former {
		bySignal[s.Signal] = s
	}
	for s, o := range observed {
		status := SignalStatus{Signal: s, State: stateName(o.State), Available: o.Available, Capacity: o.Capacity, Time: o.Time, Err: o.Err}
		for _, c := range o.Components {
			if status.Components == nil {
				status.Components = map[string]int64{}
			}
			status.Components[c.Name] = c.Value
		}
		bySignal[s] = status
	}
	out := make([]SignalStatus, 0, len(bySignal))
	for _, s := range slices.Sorted(maps.Keys(bySignal)) {
		out = append(out, bySignal[s])
	}
	return out
}

// showObservers says who observed what, and which of the signals that p asked for
// nobody is there for.
func (l *Loop) showObservers(all []SignalStatus, p *pass) []SignalStatus {
	for _, s := range p.asked {
		if _, ok := p.observed[s]; !ok {
			all = slices.DeleteFunc(all, func(o SignalStatus) bool { return o.Signal == s })
			all = append(all, SignalStatus{Signal: s, State: StateUnknown, Err: nobody})
		}
	}
	slices.SortFunc(all, func(a, b SignalStatus) int { return cmp.Compare(a.Signal, b.Signal) })
	for i := range all {
		all[i].ObservedBy, all[i].Contradiction = "", l.contradict.status(all[i].Signal)
		if all[i].State != StateUnknown {
			all[i].ObservedBy = l.observers[all[i].Signal]
		}
	}
	return all
}

func stateName(s eviction.ObservationState) string {
	switch s {
	case eviction.Observed:
		return StateObserved
	case eviction.Absent:
		return StateAbsent
	default:
		return StateUnknown
	}
}
