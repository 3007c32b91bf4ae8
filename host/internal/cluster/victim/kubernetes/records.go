package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
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

// errEnded is returned for a change that comes after the end of Killer.Run.
var errEnded = errors.New("the killer has ended")

// A record is an eviction from the decision until the API server has it and the pod has ended.
type record struct {
	// kill is as decided and does not change.
	kill victim.Kill
	// outcome is valid once decided is closed: nil if the API server has the eviction; took is the
	// API server's response time, and refused stays. failed is closed when the first write has
	// failed.
	outcome         error
	took            time.Duration
	decided, failed chan struct{}

	// The rest belongs to the goroutine of Killer.Run: what was done of the kill, and its grace
	// period, which can become shorter.
	state
	graceSeconds int64
	graceEnds    time.Time
	// forgetAt is when to drop it, zero until it is settled.
	forgetAt time.Time
	// refused is the last answer if it was a refusal.
	refused error
}

func newRecord(k victim.Kill, s state) *record {
	r := &record{kill: k, state: s, decided: make(chan struct{}), failed: make(chan struct{})}
	r.within(k.GraceSeconds)
	if s.phase == recorded || s.phase == recordedBefore {
		close(r.decided)
	}
	return r
}

func (r *record) within(seconds int64) {
	r.graceSeconds, r.graceEnds = seconds, time.Now().Add(time.Duration(seconds)*time.Second)
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

// A table holds evictions by uid, and keeps the journal in step. It belongs to Killer.Run.
type table struct {
	all     map[string]*record
	journal victim.Journal
	log     *slog.Logger
	// start starts the writes to the API server that are due for a record.
	start func(r *record)
}

func (t *table) apply(r *record, e event) error {
	var a action
	r.state, a = next(r.state, e)
	switch uid := r.kill.UID; {
	case t.all[uid] != r: // replaced by a later eviction
	case a == wake:
		t.start(r)
	case a == save && r.forgetAt.IsZero():
		return t.journal.SaveKill(r.journaled())
	case a == settle:
		r.forgetAt = time.Now().Add(apiSilentFor)
		return t.journal.RemoveKill(uid)
	case a == forget:
		delete(t.all, uid)
		return t.journal.RemoveKill(uid)
	}
	return nil
}

// step applies an event for a caller that continues if the journal fails.
func (t *table) step(r *record, e event) {
	if err := t.apply(r, e); err != nil {
		t.log.Error("step of a kill is not in the journal", "pod", r.kill.Key(), "uid", r.kill.UID, "error", err)
	}
}

func (t *table) startAll() {
	for _, r := range t.all {
		t.start(r)
	}
}

// trim bounds the records of ended pods that an unreachable API server has yet to receive.
func (t *table) trim() (err error) {
	waiting := slices.DeleteFunc(slices.Collect(maps.Values(t.all)), func(r *record) bool { return !r.ended || r.settled() })
	slices.SortFunc(waiting, func(a, b *record) int { return a.kill.EvictedAt.Compare(b.kill.EvictedAt) })
	for _, r := range waiting[:max(0, len(waiting)-maxRecords)] {
		t.log.Error("eviction is not recorded in the API server, there are too many of them", "pod", r.kill.Key(), "uid", r.kill.UID, "most", maxRecords)
		delete(t.all, r.kill.UID)
		err = errors.Join(err, t.journal.RemoveKill(r.kill.UID))
	}
	return err
}

// records holds evictions that the API server has yet to receive, and those of terminating pods.
type records struct {
	log  *slog.Logger
	lost atomic.Uint64
	// Killer.Run alone changes the table, and closes ended after the last change.
	changes chan func(t *table)
	ended   chan struct{}
	table   table
}

func newRecords(j victim.Journal, log *slog.Logger) *records {
	return &records{
		log: log, changes: make(chan func(*table)), ended: make(chan struct{}),
		table: table{all: map[string]*record{}, journal: j, log: log},
	}
}

// do calls f in the goroutine of Killer.Run, and returns its error. It waits for the start of Run. f
// must not wait for anything but the journal.
func (s *records) do(f func(t *table) error) error {
	done := make(chan error, 1)
	select {
	case s.changes <- func(t *table) { done <- f(t) }:
		return <-done
	case <-s.ended:
		return errEnded
	}
}

// change is do for an f without an error. After the end of Run it does nothing.
func (s *records) change(f func(t *table)) {
	_ = s.do(func(t *table) error {
		f(t)
		return nil
	})
}

func (s *records) step(r *record, e event) { s.change(func(t *table) { t.step(r, e) }) }

// Restore takes over the kills of a former evictd, and returns those to reassess and finish: of the
// others only the record is left. It must be called before Run.
func (k *Killer) Restore(kills []victim.Kill) (unfinished []victim.Kill) {
	t := &k.records.table
	for _, k := range kills {
		t.all[k.UID] = newRecord(k, restored(k, stale(k)))
		if !k.Ended {
			unfinished = append(unfinished, k)
		}
	}
	_ = t.trim() // what cannot be removed from the journal is restored again
	return unfinished
}

// SaveKill implements victim.Journal: it saves a kill before it begins, and again when its grace
// period changes.
func (k *Killer) SaveKill(kill victim.Kill) error {
	return k.records.do(func(t *table) error {
		r := t.all[kill.UID]
		if r == nil || !r.kill.EvictedAt.Equal(kill.EvictedAt) {
			// With the shortest grace period its containers are stopped without another note.
			r = newRecord(kill, state{stopping: kill.GraceSeconds <= policy.HardGraceSeconds, announced: kill.Announced})
			t.all[kill.UID] = r
		}
		r.within(kill.GraceSeconds)
		return t.journal.SaveKill(r.journaled())
	})
}

// RemoveKill implements victim.Journal: the pod has ended, or is no longer awaited. Its kill stays
// in the journal until the API server has all writes.
func (k *Killer) RemoveKill(uid string) error {
	return k.records.do(func(t *table) error {
		r := t.all[uid]
		if r == nil {
			return t.journal.RemoveKill(uid)
		}
		if r.phase == decided && k.teller.isTold(r) { // a former evictd died before it could save that
			r.phase = recordedBefore
		}
		return errors.Join(t.apply(r, podEnds), t.trim())
	})
}

// begin starts writing v to the API server, unless the pod is being deleted. Pass the record to done.
func (s *records) begin(v victim.Victim) (r *record, err error) {
	e := killBegins
	if isDeleted(v.Pod.API) {
		e = killOfDeletedBegins
	}
	err = s.do(func(t *table) error {
		if r = t.all[v.UID]; r == nil { // it could not be saved
			r = newRecord(v.Kill, state{announced: v.Announced})
			t.all[v.UID] = r
		}
		return t.apply(r, e) // saves nothing
	})
	return r, err
}

// done ends a kill. One that was cancelled is left to the next evictd.
func (s *records) done(ctx context.Context, r *record) {
	if cause := context.Cause(ctx); cause == nil || errors.Is(cause, victim.ErrTimeout) {
		s.step(r, killReturns)
	}
}

// refusal returns why the API server refused r, nil if it did not.
func (s *records) refusal(r *record) error {
	return s.do(func(*table) error {
		if r.phase == recorded || r.phase == recordedBefore {
			return nil
		}
		return r.refused
	})
}

func (s *records) grace(r *record) (seconds int64) {
	s.change(func(*table) { seconds = r.graceSeconds })
	return seconds
}

// answered records the answer to an attempt to send r, and whether it was final: a refusal only with last.
func (s *records) answered(r *record, a answer, err error, took time.Duration, last bool) bool {
	e, final := patchDeclined, true
	switch a {
	case accepted:
		e, err = patchAccepted, nil
	case gone:
		err = errGone
	case over:
		err = errOver
	case refused:
		err, final = fmt.Errorf("tell the API server that pod %s is evicted: %w", r.kill.Key(), inWords(err)), last
	case away, conflict:
		final = false
	}
	var stopping bool
	s.change(func(t *table) {
		if a == refused {
			r.refused = err
		} else if final {
			r.refused = nil
		}
		if final {
			r.took, r.outcome, stopping = took, err, r.stopping
			close(r.decided)
			t.step(r, e)
			t.start(r) // its event
		}
	})
	attrs := []any{"pod", r.kill.Key(), "uid", r.kill.UID, "tookSeconds", took.Seconds()}
	switch {
	case !final:
		r.noteFailure(s.log, err)
	case err == nil:
		s.log.Info("API server has the eviction", attrs...)
	case a == refused:
		s.log.Error("API server refuses the eviction, giving up", append(attrs, "error", err)...)
	case a == over && stopping:
		s.log.Warn("pod has ended before the API server had the eviction, which is not recorded", append(attrs, "message", r.kill.Message)...)
	default:
		s.log.Info("API server needs no eviction", append(attrs, "reason", err)...)
	}
	return final
}

// noteFailure records that a write of r failed. Only one goroutine writes r.
func (r *record) noteFailure(log *slog.Logger, why error) {
	select {
	case <-r.failed:
	default:
		close(r.failed)
		log.Warn("API server does not take the eviction, retrying", "pod", r.kill.Key(), "uid", r.kill.UID, "error", why)
	}
}

// announced records the result of creating r's event, which is not retried.
func (s *records) announced(r *record, err error) {
	if err != nil {
		s.lost.Add(1)
		s.log.Error("event is lost", "name", r.kill.Name, "event", victim.ReasonEvicted, "error", err)
	}
	s.step(r, announcementEnds)
}

// look returns the killed pods, by uid, without a running call of Kill, all other known pods, and
// the containers of unconfirmed ones.
func (s *records) look() (killed map[string]restarted, busy map[string]bool, unconfirmed map[string][]string) {
	killed, busy, unconfirmed = map[string]restarted{}, map[string]bool{}, map[string][]string{}
	s.change(func(t *table) {
		for uid, r := range t.all {
			switch {
			case !r.forgetAt.IsZero() && time.Now().After(r.forgetAt):
				delete(t.all, uid)
			case r.killed() && r.kills == 0:
				killed[uid] = restarted{kill: r.kill, ended: r.ended}
			default:
				busy[uid] = true
				if r.unconfirmed() {
					unconfirmed[uid] = r.kill.ContainerIDs
				}
			}
		}
	})
	return killed, busy, unconfirmed
}

// judge resolves an unconfirmed eviction: ended says whether what a former evictd was to stop has
// ended, runs whether the pod runs. If it has ended the eviction is sent to the API server, unless
// that would kill a pod that was restarted long ago.
func (s *records) judge(uid string, ended, runs bool) {
	s.change(func(t *table) {
		r, e := t.all[uid], formerKillRefuted
		if r == nil { // dropped meanwhile
			return
		}
		if stale(r.kill) && runs {
			e = podRestarted
		} else if ended {
			e = formerKillConfirmed
		}
		if e == podRestarted && r.phase == abandoned {
			t.log.Warn("pod runs again and is left alone: a former evictd stopped it long ago", "pod", r.kill.Key(), "uid", uid, "decidedAt", r.kill.DecidedAt)
		}
		t.step(r, e)
	})
}
