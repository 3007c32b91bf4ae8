package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
)

const (
	// staleAfter is the time after its grace period when a kill of a former evictd is too old to be
	// sent to the API server while the pod runs: that would be another kill.
	staleAfter = time.Minute
	// maxRecords bounds the evictions of ended pods that are kept for an unreachable API server.
	maxRecords = 500
	// apiSilentFor is the time after an eviction for which a kubelet may not have received it: it
	// reconnects to an API server after 60 s at the latest (client-go's reflector: 30 s, and as
	// much at random).
	apiSilentFor = 70 * time.Second
)

// Reasons why the API server needs no record of an eviction, or gets none for now.
var (
	errDryRun = errors.New("this is a dry run")
	errGone   = errors.New("the API server has no such pod any more")
	errOver   = errors.New("the pod has ended, or is being deleted")
)

// A record is an eviction from the decision until the API server has it and the pod has ended. The
// mutex of its records guards its fields, except for the channels.
type record struct {
	state
	uid, name string // name with the namespace
	// kill as decided; state holds what was done of it since.
	kill      victim.Kill
	graceEnds time.Time
	// forgetAt is when to drop it, zero until it is settled.
	forgetAt time.Time
	// refused is the last answer if it was a refusal.
	refused error
	// outcome is valid once decided is closed: nil if the API server has the eviction; took is the
	// API server's response time. failed is closed when the first write has failed.
	outcome         error
	took            time.Duration
	decided, failed chan struct{}
}

func newRecord(k victim.Kill, s state) *record {
	r := &record{
		state: s, uid: k.UID, name: k.Namespace + "/" + k.Name, kill: k, graceEnds: time.Now().Add(time.Duration(k.GraceSeconds) * time.Second),
		decided: make(chan struct{}), failed: make(chan struct{}),
	}
	if s.phase == recorded || s.phase == recordedBefore {
		close(r.decided)
	}
	return r
}

// restored returns the state of a kill by a former evictd. If the pod ended and the kill is not
// stale, only the write to the API server is left to do.
func restored(k victim.Kill, stale bool) state {
	s := state{stopping: k.Stopping, ended: k.Ended, announced: k.Announced}
	switch {
	case k.Recorded && k.Ended && !stale:
		s.phase = recorded
	case k.Recorded:
		s.phase = recordedBefore
	case k.Ended && stale:
		s.phase = abandoned
	case k.Ended:
		s.phase = pending
	case k.Stopping:
		s.phase = unconfirmed
	}
	return s
}

// stale reports whether a kill of a former evictd was decided long ago.
func stale(k victim.Kill) bool {
	return !k.GraceEnds.IsZero() && time.Since(k.GraceEnds) > staleAfter
}

// journaled returns the kill with its progress.
func (r *record) journaled() victim.Kill {
	k := r.kill
	k.GraceSeconds = max(1, int64(math.Ceil(time.Until(r.graceEnds).Seconds())))
	k.Stopping, k.Recorded, k.Announced, k.Ended = r.stopping, r.phase == recorded || r.phase == recordedBefore, r.announced, r.ended
	return k
}

// A note is a change to the journal: a kill to save or to remove.
type note struct {
	uid  string
	save *victim.Kill // nil if it is removed
	err  error        // once it is written
}

// A table holds evictions by uid, and the pending changes to the journal.
type table struct {
	all map[string]*record
	// notes must be written in this order: two of one kill must not overtake each other.
	notes []*note
	// wakes: Run must check for work.
	wakes bool
}

// apply applies an event to r.
func (t *table) apply(r *record, e event) {
	var a action
	r.state, a = next(r.state, e)
	t.wakes = t.wakes || a == wake
	switch {
	case t.all[r.uid] != r: // replaced by a later eviction
	case a == save && r.forgetAt.IsZero():
		t.note(r)
	case a == settle:
		r.forgetAt = time.Now().Add(apiSilentFor)
		t.unnote(r.uid)
	case a == forget:
		delete(t.all, r.uid)
		t.unnote(r.uid)
	}
}

func (t *table) note(r *record) {
	k := r.journaled()
	t.notes = append(t.notes, &note{uid: k.UID, save: &k})
}

func (t *table) unnote(uid string) { t.notes = append(t.notes, &note{uid: uid}) }

// trim bounds the records of ended pods that an unreachable API server has yet to receive.
func (t *table) trim(log *slog.Logger) {
	waiting := slices.DeleteFunc(slices.Collect(maps.Values(t.all)), func(r *record) bool { return !r.ended || r.settled() })
	slices.SortFunc(waiting, func(a, b *record) int { return a.kill.EvictedAt.Compare(b.kill.EvictedAt) })
	for _, r := range waiting[:max(0, len(waiting)-maxRecords)] {
		log.Error("eviction is not recorded in the API server, there are too many of them", "pod", r.name, "uid", r.uid, "most", maxRecords)
		delete(t.all, r.uid)
		t.unnote(r.uid)
	}
}

// records holds the evictions that the API server has yet to receive, and those of pods that are
// terminating. It also keeps the journal in step.
type records struct {
	journal victim.Journal
	log     *slog.Logger
	// changed signals Run that there may be work.
	changed chan struct{}
	lost    atomic.Uint64
	// writing is full while a caller writes notes.
	writing chan struct{}

	mu    sync.Mutex
	table table
}

func newRecords(j victim.Journal, log *slog.Logger) *records {
	return &records{journal: j, log: log, changed: make(chan struct{}, 1), writing: make(chan struct{}, 1), table: table{all: map[string]*record{}}}
}

// update changes the records, and returns once the resulting notes are in the journal.
func (s *records) update(change func(t *table)) error {
	s.mu.Lock()
	before := len(s.table.notes)
	change(&s.table)
	own, wakes := slices.Clone(s.table.notes[before:]), s.table.wakes
	s.table.wakes = false
	s.mu.Unlock()
	if wakes {
		s.wake()
	}
	if len(own) == 0 {
		return nil
	}
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.mu.Lock()
	notes := s.table.notes // none if another caller has written them meanwhile
	s.table.notes = nil
	s.mu.Unlock()
	for _, n := range notes {
		if n.save != nil {
			n.err = s.journal.SaveKill(*n.save)
		} else {
			n.err = s.journal.RemoveKill(n.uid)
		}
	}
	var errs []error
	for _, n := range own {
		errs = append(errs, n.err)
	}
	return errors.Join(errs...)
}

// step applies one event in an update, for callers that continue if the journal fails.
func (s *records) step(r *record, e event) {
	s.logUnsaved(r, s.update(func(t *table) { t.apply(r, e) }))
}

func (s *records) logUnsaved(r *record, err error) {
	if err != nil {
		s.log.Error("step of a kill is not in the journal", "pod", r.name, "uid", r.uid, "error", err)
	}
}

// restore takes over the kills of a former evictd, and returns those to reassess and finish: of the
// others only the record is left.
func (s *records) restore(kills []victim.Kill) (unfinished []victim.Kill) {
	_ = s.update(func(t *table) { // what cannot be removed from the journal is restored again
		for _, k := range kills {
			t.all[k.UID] = newRecord(k, restored(k, stale(k)))
			if !k.Ended {
				unfinished = append(unfinished, k)
			}
		}
		t.trim(s.log)
	})
	return unfinished
}

// save writes a kill to the journal before it begins, and again when its grace period changes.
func (s *records) save(k victim.Kill) error {
	return s.update(func(t *table) {
		r := t.all[k.UID]
		if r != nil && r.kill.EvictedAt.Equal(k.EvictedAt) {
			r.kill, r.graceEnds = k, time.Now().Add(time.Duration(k.GraceSeconds)*time.Second)
		} else {
			// With the shortest grace period its containers are stopped without another note.
			r = newRecord(k, state{stopping: k.GraceSeconds <= policy.HardGraceSeconds, announced: k.Announced})
			t.all[k.UID] = r
		}
		t.note(r)
	})
}

// ended records that a pod has ended, or is no longer awaited. Its kill stays in the journal until
// the API server has all writes.
func (s *records) ended(uid string) error {
	return s.update(func(t *table) {
		if r := t.all[uid]; r == nil {
			t.unnote(uid)
		} else {
			t.apply(r, podEnds)
			t.trim(s.log)
		}
	})
}

// begin starts writing v to the API server, unless the pod is being deleted. The caller passes the
// record to done.
func (s *records) begin(v victim.Victim) (r *record) {
	_ = s.update(func(t *table) {
		if r = t.all[v.UID]; r == nil { // it could not be saved
			r = newRecord(v.Kill, state{announced: v.Announced})
			t.all[v.UID] = r
		}
		if isDeleted(v.Pod.API) {
			t.apply(r, killOfDeletedBegins)
		} else {
			t.apply(r, killBegins)
		}
	})
	return r
}

// done ends a kill. One that was cancelled is left to the next evictd.
func (s *records) done(ctx context.Context, r *record) {
	if cause := context.Cause(ctx); cause == nil || errors.Is(cause, victim.ErrTimeout) {
		s.step(r, killReturns)
	}
}

// refusal returns why the API server refused r, nil if it did not.
func (s *records) refusal(r *record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.phase == recorded || r.phase == recordedBefore {
		return nil
	}
	return r.refused
}

// answered records the answer to one attempt to send r, and reports whether it was final. A refusal
// is final only with last.
func (s *records) answered(r *record, a answer, err error, took time.Duration, last bool) bool {
	if a == refused {
		err = fmt.Errorf("tell the API server that pod %s is evicted: %w", r.name, inWords(err))
		s.mu.Lock()
		r.refused = err
		s.mu.Unlock()
	}
	if a == away || a == conflict || a == refused && !last {
		r.noteFailure(s.log, err)
		return false
	}
	e := patchDeclined
	switch a {
	case accepted:
		e, err = patchAccepted, nil
	case gone:
		err = errGone
	case over:
		err = errOver
	case refused, away, conflict: // err explains it
	}
	var stopping bool
	saved := s.update(func(t *table) {
		if a != refused {
			r.refused = nil
		}
		r.took, r.outcome, stopping = took, err, r.stopping
		close(r.decided)
		t.apply(r, e)
	})
	attrs := []any{"pod", r.name, "uid", r.uid, "tookSeconds", took.Seconds()}
	switch {
	case err == nil:
		s.log.Info("API server has the eviction", attrs...)
	case a == refused:
		s.log.Error("API server refuses the eviction, giving up", append(attrs, "error", err)...)
	case a == over && stopping:
		s.log.Warn("pod has ended before the API server had the eviction, which is not recorded", append(attrs, "message", s.of(r).Message)...)
	default:
		s.log.Info("API server needs no eviction", append(attrs, "reason", err)...)
	}
	s.logUnsaved(r, saved)
	return true
}

// noteFailure records that a write of r failed. Only one goroutine writes r.
func (r *record) noteFailure(log *slog.Logger, why error) {
	select {
	case <-r.failed:
	default:
		close(r.failed)
		log.Warn("API server does not take the eviction, retrying", "pod", r.name, "uid", r.uid, "error", why)
	}
}

// announced records the result of creating r's event, which is not retried.
func (s *records) announced(r *record, err error) {
	if err != nil {
		s.lost.Add(1)
		s.log.Error("event is lost", "name", s.of(r).Name, "event", victim.ReasonEvicted, "error", err)
	}
	s.step(r, announcementEnds)
}

// take returns the records that are due for sending, and applies e to each so that it is taken only
// once.
func (s *records) take(due func(*record) bool, e event) (out []*record) {
	_ = s.update(func(t *table) { // these events save nothing
		for _, r := range t.all {
			if due(r) {
				t.apply(r, e)
				out = append(out, r)
			}
		}
	})
	return out
}

// unpatched takes the records whose eviction must be sent to the API server.
func (s *records) unpatched() []*record {
	return s.take(func(r *record) bool { return r.phase == pending }, patchBegins)
}

// unannounced takes the records whose event must be created.
func (s *records) unannounced() []*record {
	return s.take(func(r *record) bool { return r.due() && !r.announcing }, announcementBegins)
}

// look returns the killed pods, by uid, without a running call of Kill, all other known pods, and
// the containers of unconfirmed ones.
func (s *records) look() (killed map[string]restarted, busy map[string]bool, unconfirmed map[string][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	killed, busy, unconfirmed = map[string]restarted{}, map[string]bool{}, map[string][]string{}
	for uid, r := range s.table.all {
		switch {
		case !r.forgetAt.IsZero() && time.Now().After(r.forgetAt):
			delete(s.table.all, uid)
		case r.killed() && r.kills == 0:
			killed[uid] = restarted{kill: r.kill, ended: r.ended}
		default:
			busy[uid] = true
			if r.unconfirmed() {
				unconfirmed[uid] = r.kill.ContainerIDs
			}
		}
	}
	return killed, busy, unconfirmed
}

// judge resolves an unconfirmed eviction: ended says whether what a former evictd was to stop has
// ended, runs whether the pod runs. If it has ended the eviction is sent to the API server, unless
// that would kill a pod that was restarted long ago.
func (s *records) judge(uid string, ended, runs bool) {
	s.mu.Lock()
	r := s.table.all[uid]
	s.mu.Unlock()
	if r == nil { // dropped meanwhile
		return
	}
	e := formerKillRefuted
	if kill := s.of(r); stale(kill) && runs {
		e = podRestarted
	} else if ended {
		e = formerKillConfirmed
	}
	var alone bool
	saved := s.update(func(t *table) {
		alone = e == podRestarted && r.phase == abandoned
		t.apply(r, e)
	})
	if alone {
		s.log.Warn("pod runs again and is left alone: a former evictd stopped it long ago", "pod", r.name, "uid", uid, "decidedAt", s.of(r).DecidedAt)
	}
	s.logUnsaved(r, saved)
}

// of returns the current kill of r.
func (s *records) of(r *record) victim.Kill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.kill
}

// wake signals Run.
func (s *records) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
