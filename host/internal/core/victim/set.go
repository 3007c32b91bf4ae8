package victim

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// maxHistory bounds the victims in the status.
	maxHistory = 50
	// endedFor is longer than any check of limits takes, which must ignore pods that were victims
	// meanwhile.
	endedFor = time.Hour
	// EndOfKills bounds kills under way at shutdown. The next host finishes the rest from the
	// journal.
	EndOfKills = 5 * time.Second
)

// A Killer kills pods. Its methods are called from several goroutines.
type Killer interface {
	// Kill returns when the pod's containers have been stopped. After Timeout it returns an error
	// that wraps ErrTimeout.
	Kill(ctx context.Context, v Victim) error
	// Finished reports whether no container or sandbox of the pod runs any more.
	Finished(ctx context.Context, v Victim) (bool, error)
	// CleanedUp reports whether the volumes of a finished pod are gone too.
	CleanedUp(ctx context.Context, v Victim) (bool, error)
}

// A Recorder takes the events of pods, worded as the kubelet's.
type Recorder interface {
	PodEvent(pod pods.Pod, eventType, reason, message string, annotations map[string]string)
}

// A Journal keeps the pods being killed across restarts.
type Journal interface {
	SaveKill(k Kill) error
	RemoveKill(uid string) error
}

// Metrics counts kills and their relief.
type Metrics interface {
	VictimsEnding(n int)
	Killed(took time.Duration, err error)
	Relieved(s eviction.Signal, promised, released int64)
}

// Options configures a Set.
type Options struct {
	Killer   Killer
	Recorder Recorder
	// NodeEvent takes events of the node. It may be nil.
	NodeEvent func(eventType, reason, message string)
	// Holder names the largest user of a resource outside of all pods. It may be nil.
	Holder  func(eviction.Signal) string
	Journal Journal
	Metrics Metrics
	Log     *slog.Logger
	// Moment returns now on the clocks that sample times use.
	Moment func() policy.Moment
	// Recorded: a record is kept of each decision.
	Recorded bool
	// Restored holds the kills of a former host that have not been reassessed yet.
	Restored []Kill
	// Owed holds the open promises of a former host. SaveOwed keeps them for the next one.
	Owed     []policy.Owed
	SaveOwed func([]policy.Owed) error
}

// shown holds the last victims, and the same for the status.
type shown struct {
	victims   []Victim
	evictions []Eviction
}

// A Set holds all victims, from the decision until they no longer matter after their end. It
// belongs to one goroutine; only History and Evictions may be called from anywhere.
type Set struct {
	Options
	// Relief tracks what the victims are expected to free.
	Relief Relief

	victims []*Victim // in the order of the decisions
	shown   atomic.Pointer[shown]
	reports chan Report
	running sync.WaitGroup
	began   time.Time
	ctx     context.Context //nolint:containedctx // of kills, which outlive the loop by EndOfKills
	cancel  context.CancelFunc
}

// NewSet returns a set without victims. Call Begin before adding one.
func NewSet(o Options) *Set {
	s := &Set{Options: o, reports: make(chan Report)}
	s.Relief = Relief{ledger: policy.Restored(o.Owed, o.Moment), saved: o.Owed, waiting: map[eviction.Signal]policy.Wait{}, paced: map[string]time.Time{}, of: s}
	s.show()
	return s
}

// Begin sets the context of kills, which outlives ctx: see Drain.
func (s *Set) Begin(ctx context.Context) {
	s.began = time.Now()
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
}

// Start adds a victim and saves it in the journal, so that if this host dies before the kill the
// next one finishes it and takes no second victim.
func (s *Set) Start(v Victim) *Victim {
	if s.Recorded {
		v.Record = decision.NewID(time.Now())
		annotations := map[string]string{AnnotationRecord: v.Record}
		if v.Why != "" {
			annotations[AnnotationWhy] = v.Why
		}
		maps.Copy(annotations, v.Annotations)
		v.Annotations = annotations
	}
	if v.DryRun {
		v.State = StateDryRun
	} else if err := s.Journal.SaveKill(v.Kill); err != nil {
		s.Log.Error("kill is not in the journal, a restart would forget it", "pod", v.Key(), "uid", v.UID, "error", err)
	} else {
		v.JournalledAt = time.Now()
	}
	return s.add(&v)
}

// add adds a victim. It drops old victims that are neither shown nor matter, and the details of
// those that have ended.
func (s *Set) add(v *Victim) *Victim {
	v.shorten = make(chan int64, 1)
	now, old := time.Now(), max(0, len(s.victims)+1-maxHistory)
	matter := slices.DeleteFunc(slices.Clone(s.victims[:old]), func(v *Victim) bool {
		return !v.ending() && !v.cleaning && !v.leftover && now.Sub(v.endedAt) > endedFor
	})
	for _, v := range matter {
		if !v.ending() {
			*v = Victim{Kill: Kill{UID: v.UID}, endedAt: v.endedAt, cleaning: v.cleaning, leftover: v.leftover}
		}
	}
	s.victims = append(slices.Concat(matter, s.victims[old:]), v)
	s.Metrics.VictimsEnding(len(s.Ending()))
	s.show()
	return v
}

// Kill sends the event and kills v in the background. Reports delivers the progress.
func (s *Set) Kill(v *Victim, how Await) {
	if !v.DryRun && !v.Resumed {
		s.evicted(v)
	}
	e := ending{
		of: v, victim: *v, volumes: how.volumes || v.waitsForVolumes(), how: how,
		killer: s.Killer, log: s.Log, reports: s.reports, running: &s.running,
	}
	s.running.Go(func() { e.run(s.ctx) })
}

// KillNow kills v and waits for the kill. The caller waits for the clean-up.
func (s *Set) KillNow(ctx context.Context, v *Victim) {
	if !v.DryRun {
		s.evicted(v)
		started := time.Now()
		err := s.Killer.Kill(ctx, *v)
		s.killed(v, Report{err: err, took: time.Since(started)})
	}
	s.remove(v)
	s.cleanedUp(v, true)
}

// evicted sends the event, which names the record if there is one.
func (s *Set) evicted(v *Victim) {
	s.Recorder.PodEvent(v.Pod, "Warning", ReasonEvicted, v.Message, v.Annotations)
}

// Reports delivers reports for Handle.
func (s *Set) Reports() <-chan Report { return s.reports }

// Handle processes a report, and reports whether to observe the node now.
func (s *Set) Handle(r Report) (look bool) {
	v := r.of
	switch r.stage {
	case killed:
		s.killed(v, r)
		return false
	case cleanedUp:
		s.cleanedUp(v, r.ok)
		return true
	case ended:
	}
	s.remove(v)
	switch {
	case v.DryRun:
	case r.ok:
		v.State, v.leftover = StateFinished, true
		s.show() // before the log says so
		s.Log.Info("pod finished", "pod", v.Key(), "uid", v.UID, "tookSeconds", r.took.Round(time.Millisecond).Seconds())
	default:
		v.State = StateGivenUp
		s.show()
		s.Log.Error("pod is still there, it becomes an ordinary candidate again", "pod", v.Key(), "uid", v.UID, "waitedSeconds", r.took.Round(time.Millisecond).Seconds())
	}
	if v.cleaning = r.volumes; !v.cleaning {
		s.cleanedUp(v, r.ok)
	}
	return true
}

// killed records the result of a kill. The pod may still be running.
func (s *Set) killed(v *Victim, r Report) {
	s.Metrics.Killed(r.took, r.err)
	v.State, v.KilledAt = StateCleaningUp, time.Now()
	if r.err != nil {
		v.Err = r.err.Error()
	}
	s.show()
	if r.err != nil {
		s.Log.Error("pod not killed", "pod", v.Key(), "uid", v.UID, "signal", v.Signal, "tookSeconds", r.took.Round(time.Millisecond).Seconds(), "error", r.err)
	} else {
		s.Log.Info("pod killed", "pod", v.Key(), "uid", v.UID, "signal", v.Signal, "tookSeconds", r.took.Round(time.Millisecond).Seconds())
	}
	if errors.Is(r.err, ErrTimeout) {
		s.Recorder.PodEvent(v.Pod, "Warning", ReasonExceededGracePeriod, MessageExceededGracePeriod, nil)
	}
}

// remove ends a victim: it no longer counts as terminating.
func (s *Set) remove(v *Victim) {
	v.endedAt = time.Now()
	s.Metrics.VictimsEnding(len(s.Ending()))
}

// settle records what a victim has released.
func (s *Set) settle(of policy.Settlement) {
	for _, v := range slices.Backward(s.victims) {
		if v.UID == of.UID && v.Signal == of.Signal {
			v.Released = eviction.Some(of.Released)
			if of.Kept() {
				v.ReliefAt = time.Now()
			}
			s.show()
			return
		}
	}
}

// cleanedUp stops watching a victim: its relief is on its way, or no more is expected. It keeps the
// pod's data if the pod has become a victim again meanwhile, or if v was of a dry run.
func (s *Set) cleanedUp(v *Victim, all bool) {
	v.cleaning = false
	if v.DryRun || s.IsEnding(v.UID) {
		return
	}
	if all {
		s.Relief.ledger = s.Relief.ledger.Ended(v.UID, s.Moment())
	} else {
		s.Relief.ledger = s.Relief.ledger.Dropped(v.UID, s.Moment())
	}
	s.Relief.keep()
	s.forgetKill(v.UID)
}

// forgetKill removes a kill from the journal: a next host has nothing left to do for it.
func (s *Set) forgetKill(uid string) {
	if err := s.Journal.RemoveKill(uid); err != nil {
		s.Log.Error("kill stays in the journal", "uid", uid, "error", err)
	}
}

// Shorten kills victims of soft thresholds at once when a hard t is met, and all when memory is
// exhausted: a grace period may be shortened, never lengthened.
func (s *Set) Shorten(t policy.Threshold, o eviction.Observation) {
	for uid, v := range s.Ending() {
		seconds, cut := policy.ShorterGrace(t, o, v.Hard, v.GraceSeconds)
		if v.DryRun || v.shorten == nil || !cut {
			continue
		}
		s.Log.Warn("hard threshold met while a victim is dying, shortening its grace period", "pod", v.Key(), "uid", uid,
			"signal", t.Signal, "available", o.Available, "from", v.GraceSeconds, "to", seconds)
		shortest := v.within(seconds)
		if err := s.Journal.SaveKill(shortest.Kill); err != nil {
			s.Log.Error("shortened grace period is not in the journal", "pod", v.Key(), "uid", uid, "error", err)
		}
		s.Relief.ledger = s.Relief.ledger.Shortened(uid, time.Duration(seconds)*time.Second, s.Moment())
		v.shorten <- seconds
		close(v.shorten)
		v.shorten = nil
	}
}

// Resume reassesses the kills of a former host and returns those that are still needed, to be
// killed; while wait is set no other pod may be evicted. short reports whether it is known if the
// node is short of a signal, and whether it is.
func (s *Set) Resume(active pods.Snapshot, dryRun bool, short func(eviction.Signal) (known, is bool)) (hold []*Victim, wait bool) {
	s.Restored = slices.DeleteFunc(s.Restored, func(j Kill) bool {
		if s.IsEnding(j.UID) { // chosen again, its kill is in the journal in place of the former one
			return true
		}
		i := policy.Intent{Overdue: time.Since(j.GraceEnds), DryRun: dryRun, Waited: time.Since(s.began)}
		i.Looked, i.Short = short(j.Signal)
		pod := pods.Pod{Row: eviction.Pod{UID: j.UID, Namespace: j.Namespace, Name: j.Name}, SandboxIDs: j.SandboxIDs, ContainerIDs: j.ContainerIDs}
		if at := slices.IndexFunc(active.Pods, func(p pods.Pod) bool { return p.Row.UID == j.UID }); at >= 0 {
			pod = active.Pods[at]
			if i.There = true; pod.HasManifest {
				i.Pod = pod.API
			}
		}
		verdict, reason := policy.JudgeIntent(i)
		attrs := []any{"pod", pod.String(), "uid", j.UID, "signal", j.Signal, "decidedAt", j.DecidedAt}
		switch verdict {
		case policy.PostponeKill:
			wait = wait || i.HoldsUp()
			return false
		case policy.DropKill:
			s.Log.Warn("kill that a former evictd decided on is dropped", append(attrs, "reason", reason)...)
			s.forgetKill(j.UID)
			return true
		case policy.FinishKill:
			s.Log.Warn("finishing a kill that a former evictd decided on", append(attrs, "graceSeconds", j.GraceSeconds)...)
		}
		if j.EvictedAt.IsZero() {
			j.EvictedAt = time.Now()
		}
		hold = append(hold, s.add(&Victim{Kill: j, Pod: pod, State: StateKilling, Resumed: true, GraceOverrideSeconds: j.GraceSeconds, gone: verdict == policy.AwaitEnd}))
		return true
	})
	return hold, wait
}

// Ending returns the victims that are terminating, by uid.
func (s *Set) Ending() map[string]*Victim {
	ending := map[string]*Victim{}
	for _, v := range s.victims {
		if v.ending() {
			ending[v.UID] = v
		}
	}
	return ending
}

func (s *Set) any(is func(*Victim) bool) bool { return slices.ContainsFunc(s.victims, is) }

// IsEnding reports whether a pod is a terminating victim, and so no candidate.
func (s *Set) IsEnding(uid string) bool {
	return s.any(func(v *Victim) bool { return v.UID == uid && v.ending() })
}

// Busy reports whether a victim is terminating, or its clean-up is awaited.
func (s *Set) Busy() bool { return s.any(func(v *Victim) bool { return v.ending() || v.cleaning }) }

// EndedSince reports whether a pod was a victim that ended since then.
func (s *Set) EndedSince(uid string, then time.Time) bool {
	return s.any(func(v *Victim) bool { return v.UID == uid && !v.ending() && !v.endedAt.Before(then) })
}

// EndPretence ends those victims of a dry run, so that they no longer delay decisions.
func (s *Set) EndPretence(of func(*Victim) bool) {
	for _, v := range s.victims {
		if v.DryRun && v.ending() && of(v) {
			s.remove(v)
		}
	}
}

// Pretending reports whether a victim of a dry run, for one of these signals, delays the next one,
// like a terminating pod. It frees nothing, so no relief is expected of it.
func (s *Set) Pretending(of func(eviction.Signal) bool) bool {
	return s.any(func(v *Victim) bool { return v.ending() && v.DryRun && !v.Limit && of(v.Signal) })
}

// Leaving returns the terminating pods by uid. A pod that a threshold would have evicted in a dry run
// stays a candidate under other pressures.
func (s *Set) Leaving() map[string]bool {
	leaving := map[string]bool{}
	for _, v := range s.victims {
		leaving[v.UID] = leaving[v.UID] || v.ending() && (!v.DryRun || v.Limit)
	}
	return leaving
}

// Phases returns the phases of all pods, and which of them were victims.
func (s *Set) Phases(listed pods.Snapshot) []eviction.PodPhase {
	var phases []eviction.PodPhase
	ending := s.Ending()
	for _, pod := range listed.Pods {
		state := eviction.PodActive
		if ending[pod.Row.UID] != nil {
			state = eviction.PodEvicted
		}
		phases = append(phases, eviction.PodPhase{UID: pod.Row.UID, State: state})
	}
	for _, pod := range listed.Ended {
		if pod.State != eviction.PodDeleted && s.any(func(v *Victim) bool { return v.UID == pod.UID && v.leftover }) {
			pod.State = eviction.PodEvicted
		}
		phases = append(phases, eviction.PodPhase{UID: pod.UID, State: pod.State})
	}
	s.Listed(listed)
	return phases
}

// Listed clears the leftovers of victims that have none any more. If such a pod runs again, its
// owner restarted it, and its next end is not an eviction.
func (s *Set) Listed(listed pods.Snapshot) {
	for _, v := range s.victims {
		v.leftover = v.leftover && slices.ContainsFunc(listed.Ended, func(p pods.Ended) bool { return p.UID == v.UID })
	}
}

// show publishes the state of the victims without waiting for a pass.
func (s *Set) show() {
	last := s.victims[max(0, len(s.victims)-maxHistory):]
	out := shown{make([]Victim, len(last)), make([]Eviction, len(last))}
	for i, v := range last {
		out.victims[i] = *v
		out.evictions[i] = Eviction{
			v.EvictedAt, v.Record, v.Key(), v.UID, v.Signal, v.GraceSeconds, v.Message, v.Why, v.Ranker, v.RankReason, v.State, v.DryRun, v.Resumed, v.Err,
		}
	}
	s.shown.Store(&out)
}

// History returns the last victims. It may be called from anywhere.
func (s *Set) History() []Victim { return s.shown.Load().victims }

// Evictions returns the last victims for the status. It may be called from anywhere.
func (s *Set) Evictions() []Eviction { return s.shown.Load().evictions }

// Drain waits for kills under way, for EndOfKills at most. The rest stays in the journal.
func (s *Set) Drain() {
	defer s.cancel()
	defer time.AfterFunc(EndOfKills, s.cancel).Stop()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	inFlight := func(v *Victim) bool { return v.ending() && !v.DryRun }
	for waiting := true; waiting; {
		if !s.any(inFlight) {
			s.cancel()
		}
		select {
		case r := <-s.reports:
			s.Handle(r)
		case <-done:
			waiting = false
		}
	}
	for _, v := range s.victims {
		if inFlight(v) {
			s.Log.Warn("kill in flight is left to the next evictd", "pod", v.Key(), "uid", v.UID)
		}
	}
}
