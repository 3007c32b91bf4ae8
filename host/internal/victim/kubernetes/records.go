package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/victim"
)

const (
	// staleAfter is the time after its grace period at which a kill of a former evictd is too
	// old to be reported to the API server while the pod runs: that would be another kill.
	staleAfter = time.Minute
	// maxRecords bounds the evictions of pods that have ended that are kept for an API server
	// that is away.
	maxRecords = 500
	// apiSilentFor is the time after an eviction for which a kubelet may not have received it: it
	// asks an API server that was away again after 60 s at the latest (client-go's reflector: 30
	// s, and as much at random).
	apiSilentFor = 70 * time.Second
)

// Why the API server needs no record of an eviction, or gets none for now.
var (
	errDryRun = errors.New("this is a dry run")
	errGone   = errors.New("the API server has no such pod any more")
	errOver   = errors.New("the pod has ended, or is being deleted")
)

// A record is an eviction from the decision until the API server has it and the pod has
// ended. Its fields are those of the records that it is in, but for the channels.
type record struct {
	kill      rundir.Kill
	graceEnds time.Time
	// wanted: the API server is to have it. telling: it is being sent. announcing: its event
	// is being created.
	wanted, patching, announcing bool
	// begun: the pod was killed, kills is by how many who still are at it.
	begun bool
	kills int
	// restored: a former evictd decided on it.
	restored bool
	// dropped: nobody waits for the pod any more, of which it is not known whether a former
	// evictd has stopped it.
	dropped bool
	// forgetAt is when nobody looks any more whether the pod has stayed ended, once it has
	// and the API server knows.
	forgetAt time.Time
	// refused is the last answer, if that was no.
	refused error
	// outcome is nil if the API server has it, once decided is closed; took is how long
	// it took to answer. failed is closed when the first write has failed.
	outcome         error
	took            time.Duration
	decided, failed chan struct{}
}

func newRecord(k rundir.Kill) *record {
	r := &record{kill: k, graceEnds: time.Now().Add(time.Duration(k.GraceSeconds) * time.Second), decided: make(chan struct{}), failed: make(chan struct{})}
	if k.Recorded {
		close(r.decided)
	}
	return r
}

// open reports whether the API server has yet to receive the eviction, or to answer.
func (r *record) open() bool {
	select {
	case <-r.decided:
		return false
	default:
		return true
	}
}

// has reports whether the API server has it.
func (r *record) has() bool { return !r.open() && r.outcome == nil }

// due reports whether the event is to be created: of a kill that a former evictd decided on
// not before it is known that the pod goes.
func (r *record) due() bool {
	return !r.kill.Announced && (r.begun || r.wanted || r.kill.Ended && r.kill.Recorded)
}

// settled reports whether the API server needs nothing more of it.
func (r *record) settled() bool { return !r.due() && (!r.wanted && !r.has() || !r.open()) }

// unconfirmed reports whether a former evictd may have stopped the pod, or not, or has so long
// ago that it may run again.
func (r *record) unconfirmed() bool {
	return r.restored && (r.kill.Stopping || r.kill.Ended) && r.open() && !r.begun && !r.wanted
}

// stale reports whether a former evictd has decided on it long ago.
func (r *record) stale() bool {
	return r.restored && !r.kill.GraceEnds.IsZero() && time.Since(r.kill.GraceEnds) > staleAfter
}

// records holds the evictions that the API server has yet to receive, and those of pods
// that are ending. It is their journal, too: what is in the files is what is here.
type records struct {
	journal victim.Journal
	log     *slog.Logger
	// changed tells Run that there may be something to do.
	changed chan struct{}
	lost    *atomic.Uint64

	mu  *sync.Mutex // over the journal too: two notes of a kill must not overtake each other
	all map[string]*record
}

func newRecords(j victim.Journal, log *slog.Logger) records {
	return records{journal: j, log: log, changed: make(chan struct{}, 1), lost: &atomic.Uint64{}, mu: &sync.Mutex{}, all: map[string]*record{}}
}

// Restore takes over the kills of a former evictd, and returns those that are to be judged
// and finished: of the others only the record is left. Call it before anything else.
func (s *records) Restore(kills []rundir.Kill) (unfinished []rundir.Kill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range kills {
		r := newRecord(k)
		r.restored = true
		r.wanted, r.begun, r.dropped = k.Ended && !r.stale(), k.Ended && !r.stale(), k.Ended && r.stale()
		s.all[k.UID] = r
		if !k.Ended {
			unfinished = append(unfinished, k)
		}
	}
	s.trim()
	return unfinished
}

// SaveKill implements victim.Journal.
func (s *records) SaveKill(k rundir.Kill) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := s.all[k.UID]
	if former != nil && former.kill.EvictedAt.Equal(k.EvictedAt) { // with another grace
		k.Stopping, k.Recorded, k.Announced = former.kill.Stopping, former.kill.Recorded, former.kill.Announced
		former.kill, former.graceEnds = k, time.Now().Add(time.Duration(k.GraceSeconds)*time.Second)
	} else {
		// Its containers are stopped without a further note.
		k.Stopping = k.GraceSeconds <= policy.HardGraceSeconds
		s.all[k.UID] = newRecord(k)
	}
	return s.journal.SaveKill(k)
}

// RemoveKill implements victim.Journal: the pod has ended, or is not waited for any more. If
// evictd has had a part in it the kill stays until the API server knows.
func (s *records) RemoveKill(uid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[uid]
	if r != nil && r.unconfirmed() {
		r.dropped = true
		return nil
	}
	switch {
	case r == nil || r.settled() && !r.wanted && !r.has():
		delete(s.all, uid)
		return s.journal.RemoveKill(uid)
	case r.settled():
		r.kill.Ended = true
		r.forgetAt = time.Now().Add(apiSilentFor)
		return s.journal.RemoveKill(uid)
	}
	r.kill.Ended = true
	s.trim()
	return s.note(r)
}

// trim keeps the records of ended pods from becoming ever more.
func (s *records) trim() {
	for {
		var oldest *record
		n := 0
		for _, r := range s.all {
			if !r.kill.Ended || r.settled() {
				continue
			}
			if n++; oldest == nil || r.kill.EvictedAt.Before(oldest.kill.EvictedAt) {
				oldest = r
			}
		}
		if n <= maxRecords {
			return
		}
		s.log.Error("eviction is not recorded in the API server, there are too many of them", "pod", oldest.name(), "uid", oldest.kill.UID, "most", maxRecords)
		s.forget(oldest)
	}
}

func (r *record) name() string { return r.kill.Namespace + "/" + r.kill.Name }

// note writes down what r is now, unless another one has its place.
func (s *records) note(r *record) error {
	if s.all[r.kill.UID] != r || !r.forgetAt.IsZero() {
		return nil
	}
	k := r.kill
	k.GraceSeconds = max(1, int64(math.Ceil(time.Until(r.graceEnds).Seconds())))
	return s.journal.SaveKill(k)
}

func (s *records) forget(r *record) {
	if s.all[r.kill.UID] != r {
		return
	}
	delete(s.all, r.kill.UID)
	s.unnote(r)
}

func (s *records) unnote(r *record) {
	if err := s.journal.RemoveKill(r.kill.UID); err != nil {
		s.log.Error("kill stays in the journal", "uid", r.kill.UID, "error", err)
	}
}

// begin has v written to the API server, unless the pod is being deleted. done takes back what
// it returned.
func (s *records) begin(v victim.Victim) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[v.UID]
	if r == nil { // it could not be noted
		r = newRecord(v.Journaled())
		s.all[v.UID] = r
	}
	r.kills++
	r.begun = true
	r.wanted = r.wanted || !isDeleted(v.Pod.API)
	s.wake()
	return r
}

// done ends a kill. One that was broken off is left to the next evictd.
func (s *records) done(ctx context.Context, r *record) {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, victim.ErrTimeout) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.kills--
}

// stopping notes that the pod's containers will be stopped through the runtime, so that its
// end is not the kubelet's alone.
func (s *records) stopping(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[uid]
	if r == nil || r.kill.Stopping {
		return
	}
	r.kill.Stopping = true
	if err := s.note(r); err != nil {
		s.log.Error("step of a kill is not in the journal", "pod", r.name(), "uid", uid, "error", err)
	}
}

// refusal returns why the API server did not take r, nil if it has not refused.
func (s *records) refusal(r *record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.has() || r.refused == nil {
		return nil
	}
	return r.refused
}

// answered takes the answer to one try to tell the API server of r, and reports whether
// that was the last one. A refusal is only if it is the last.
func (s *records) answered(r *record, a answer, err error, took time.Duration, last bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a == refused {
		err = fmt.Errorf("tell the API server that pod %s is evicted: %w", r.name(), inWords(err))
		r.refused = err
	}
	if a == away || a == conflict || a == refused && !last {
		r.noteFailure(s.log, err)
		return false
	}
	r.took = took
	switch a {
	case refused:
		r.outcome = err
	case gone:
		r.outcome, r.refused = errGone, nil
	case over:
		r.outcome, r.refused = errOver, nil
	default:
		r.refused = nil
	}
	close(r.decided)
	s.reported(r)
	return true
}

// noteFailure notes that a write of r has failed.
func (r *record) noteFailure(log *slog.Logger, why error) {
	select {
	case <-r.failed:
	default:
		close(r.failed)
		log.Warn("API server does not take the eviction, retrying", "pod", r.name(), "uid", r.kill.UID, "error", why)
	}
}

// reported logs the outcome of r and notes that step.
func (s *records) reported(r *record) {
	attrs := []any{"pod", r.name(), "uid", r.kill.UID, "tookSeconds", r.took.Seconds()}
	switch {
	case r.outcome == nil:
		s.log.Info("API server has the eviction", attrs...)
	case r.refused != nil:
		s.log.Error("API server refuses the eviction, giving up", append(attrs, "error", r.outcome)...)
	case r.kill.Stopping && errors.Is(r.outcome, errOver):
		s.log.Warn("pod has ended before the API server had the eviction, which is not recorded", append(attrs, "message", r.kill.Message)...)
	default:
		s.log.Info("API server needs no eviction", append(attrs, "reason", r.outcome)...)
	}
	r.kill.Recorded = r.outcome == nil
	if s.all[r.kill.UID] != r { // there is another one by now
		return
	}
	s.step(r)
}

// step notes a step of r, or forgets r if that was the last one.
func (s *records) step(r *record) {
	if r.kill.Ended && r.settled() {
		r.forgetAt = time.Now().Add(apiSilentFor)
		s.unnote(r)
	} else if err := s.note(r); err != nil {
		s.log.Error("step of a kill is not in the journal", "pod", r.name(), "uid", r.kill.UID, "error", err)
	}
}

// announced takes what came of the event of r, which is not tried again.
func (s *records) announced(r *record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.kill.Announced = true
	if err != nil {
		s.lost.Add(1)
		s.log.Error("event is lost", "name", r.kill.Name, "event", victim.ReasonEvicted, "error", err)
	}
	if s.all[r.kill.UID] == r {
		s.step(r)
	}
}

// LostEvents counts the events of evictions that never reached the API server.
func (s *records) LostEvents() uint64 { return s.lost.Load() }

// unannounced returns the records whose event is to be created, for the caller to do so.
func (s *records) unannounced() (out []*record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if r.due() && !r.announcing {
			r.announcing = true
			out = append(out, r)
		}
	}
	return out
}

// untold returns the records that the API server is to receive and that are not being sent to
// it, for the caller to do so.
func (s *records) untold() (out []*record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if r.wanted && !r.patching && r.open() {
			r.patching = true
			out = append(out, r)
		}
	}
	return out
}

// look returns the pods, by uid, that were killed and that nobody is at any more, those
// that somebody is to kill or kills, and of which it is doubtful that a former evictd has:
// their containers.
func (s *records) look() (killed map[string]restarted, busy map[string]bool, unconfirmed map[string][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	killed, busy, unconfirmed = map[string]restarted{}, map[string]bool{}, map[string][]string{}
	for uid, r := range s.all {
		switch {
		case !r.forgetAt.IsZero() && time.Now().After(r.forgetAt):
			delete(s.all, uid)
		case r.begun && r.kills == 0 && (r.open() && r.wanted || r.has()):
			killed[uid] = restarted{kill: r.kill}
		default:
			busy[uid] = true
			if r.unconfirmed() {
				unconfirmed[uid] = r.kill.ContainerIDs
			}
		}
	}
	return killed, busy, unconfirmed
}

// settle says of a doubtful pod whether what a former evictd was to stop has ended, and
// whether the pod runs. If it has ended the API server is informed, unless that would end a pod
// that has long been restarted; if not it is for the judge of former kills to say what
// becomes of it.
func (s *records) settle(uid string, ended, runs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[uid]
	switch {
	case r == nil || !r.unconfirmed():
	case r.stale() && runs:
		if r.dropped {
			s.log.Warn("pod runs again and is left alone: a former evictd stopped it long ago", "pod", r.name(), "uid", uid, "decidedAt", r.kill.DecidedAt)
			s.forget(r)
		}
	case ended || r.kill.Ended:
		r.wanted, r.begun, r.kill.Ended = true, true, r.dropped
		s.wake()
	case r.dropped:
		s.forget(r)
	}
}

// of returns the kill of r as it is now.
func (s *records) of(r *record) rundir.Kill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.kill
}

// wake has Run look.
func (s *records) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
