package loop

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/core/wake"
	"github.com/evictd/evictd/shared/eviction"
)

// A Snapshot holds the state of the loop after its last pass. It is immutable once published.
type Snapshot struct {
	// Passes counts the passes. Time is the end of the last one that concluded
	// something, zero if none has.
	Passes     uint64                 `json:"passes"`
	Time       time.Time              `json:"time,omitzero"`
	Conditions []eviction.Condition   `json:"conditions"`
	Thresholds []decision.Threshold   `json:"thresholds"`
	Signals    []observe.SignalStatus `json:"signals"`
	Evictions  []victim.Eviction      `json:"evictions"`
	// Reclaims holds the last reclaim of each signal, the newest last.
	Reclaims []ReclaimStatus `json:"reclaims,omitempty"`
	// Waiting says why no further pod is evicted for thresholds that are met, by signal.
	Waiting []policy.Wait `json:"waiting,omitempty"`
	// Layout of the node's filesystems: shared, imagefs or containerfs; empty while unknown.
	Layout string `json:"layout,omitempty"`
	// AssignProblems lists assignments that, in the observed layout, give one filesystem to two
	// plugins.
	AssignProblems []string `json:"assignProblems,omitempty"`
	// Unmanaged lists pods that run without a manifest: reported, never evicted.
	Unmanaged []string `json:"unmanagedPods,omitempty"`
	// Problems lists manifests that could not be used.
	Problems []string `json:"manifestProblems,omitempty"`

	shortages map[string]shortage // by resource
	// active counts the pods in the last listing, evictable those that may be evicted.
	active, evictable int
}

// wokenBy adds the causes of the last wakes to statuses, which replace former.
func wokenBy(statuses, former []observe.SignalStatus, scope wake.Scope) []observe.SignalStatus {
	for i := range statuses {
		s := &statuses[i]
		b, _ := eviction.Builtin(s.Signal)
		if cause := scope.Woken[b.Condition]; cause != "" && cause != wake.CauseWatchStarted {
			s.WokenBy = cause
		} else if at := slices.IndexFunc(former, func(f observe.SignalStatus) bool { return f.Signal == s.Signal }); at >= 0 {
			s.WokenBy = former[at].WokenBy
		}
	}
	return statuses
}

// Unevictable returns an error if a hard threshold is met and no pod can be evicted because they
// lack manifests.
func (s *Snapshot) Unevictable() error {
	for i := range s.Thresholds {
		t := &s.Thresholds[i]
		if t.Hard() && t.Since != nil && len(s.Unmanaged) > 0 && s.evictable == 0 {
			return fmt.Errorf("%s is below %s and no pod can be evicted: %d of %d active pods have no manifest", t.Signal, t.Value, len(s.Unmanaged), s.active)
		}
	}
	return nil
}

// Short reports whether it is known if the node is short of a resource now, and whether it is.
func (s *Snapshot) Short(resource string) (known, is bool) {
	of, configured := s.shortages[resource]
	return !s.Time.IsZero() && (of.known || !configured), of.is
}

// A shortage says whether it is known if the node is short of a resource, and whether it has been
// for a whole grace period.
type shortage struct{ known, is bool }

func shortages(inForce []policy.Threshold, s policy.State, last func(eviction.Signal) eviction.Observation) map[string]shortage {
	all := map[string]shortage{}
	for _, t := range inForce {
		resource, o := t.Definition().Resource, last(t.Signal)
		former, another := all[resource]
		all[resource] = shortage{(former.known || !another) && o.State != eviction.Unknown, former.is || s.Stands(t, o)}
	}
	return all
}

// ReclaimStatus describes a node-level reclaim, with the steps that have ended.
type ReclaimStatus struct {
	// Pass is the number of the pass that began it, Time that pass's time.
	Pass   uint64             `json:"pass"`
	Time   time.Time          `json:"time"`
	Signal eviction.Signal    `json:"signal"`
	Steps  []decision.Reclaim `json:"steps"`
	// Sufficed reports that every threshold was satisfied after the last step, so no pod was
	// evicted.
	Sufficed bool `json:"sufficed"`
}

// status holds the published snapshot. It may be read from anywhere.
type status struct {
	shown   atomic.Pointer[Snapshot]
	metrics Metrics
	log     *slog.Logger
}

func (s *status) now() *Snapshot {
	if now := s.shown.Load(); now != nil {
		return now
	}
	return &Snapshot{}
}

// change publishes a modified copy of the snapshot.
func (s *status) change(change func(next *Snapshot)) {
	next := *s.now()
	change(&next)
	s.shown.Store(&next)
}

// reclaimed publishes a reclaim in place of the previous one for its signal.
func (s *status) reclaimed(r ReclaimStatus) {
	s.change(func(next *Snapshot) {
		others := slices.DeleteFunc(slices.Clone(next.Reclaims), func(former ReclaimStatus) bool { return former.Signal == r.Signal })
		next.Reclaims = append(others, r)
	})
}

// listed publishes the pods that cannot be evicted without a usable manifest.
func (s *status) listed(pods pods.Snapshot) {
	s.change(func(next *Snapshot) {
		next.Unmanaged, next.active, next.evictable = nil, len(pods.Pods), 0
		for _, p := range pods.Pods {
			switch {
			case !p.HasManifest:
				next.Unmanaged = append(next.Unmanaged, p.String())
			case policy.Evictable(p.API):
				next.evictable++
			}
		}
		s.metrics.PodsUnmanaged(len(next.Unmanaged))
		s.problems(next, pods.Problems)
	})
}

// problems stores the problems of manifests in next, and logs the new ones.
func (s *status) problems(next *Snapshot, problems []pods.Problem) {
	former := next.Problems
	next.Problems = nil
	for _, p := range problems {
		text := p.Error()
		next.Problems = append(next.Problems, text)
		if !slices.Contains(former, text) {
			s.log.Warn("pod manifest has a problem", "problem", text, "used", p.Used)
		}
	}
	if len(problems) == 0 && len(former) > 0 {
		s.log.Info("pod manifests have no problem any more")
	}
}
