package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/actuate"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// cleanupWait is how long a killed pod keeps the next victim safe while it is
	// not finished (podCleanupTimeout of the kubelet).
	cleanupWait = 30 * time.Second
	// The wait looks often at first: most pods are gone as soon as their
	// containers are. The kubelet looks each second.
	firstCleanupLook = 20 * time.Millisecond
	maxCleanupLook   = time.Second
	// finishedDeadline bounds one look.
	finishedDeadline = 5 * time.Second
	// shortestGraceSeconds is a hard eviction's grace period.
	shortestGraceSeconds = 1
)

// A flight is a victim between the decision and its end.
type flight struct {
	kill Kill
	// hard: of a hard threshold, so nothing is left to be shortened.
	hard bool
	// shorten is closed to have the pod killed with the shortest grace.
	shorten   chan struct{}
	shortened bool
	// record is the entry in the history that the flight keeps true.
	record *Eviction
}

// A report is what a kill's goroutine tells the loop.
type report struct {
	uid  string
	err  error
	took time.Duration
	// ended: the flight is over, the pod finished or given up on.
	ended    bool
	finished bool
}

// board puts a victim in flight and in the journal, so that a host that dies
// before the kill is followed by one that finishes it and takes no second victim.
func (l *Loop) board(k Kill, hard bool, reason, ranker string) *flight {
	uid := k.Pod.Row.UID
	record := &Eviction{
		Time: time.Now(), Pod: k.Pod.String(), UID: uid, Signal: k.Signal, GraceSeconds: k.GraceSeconds,
		Message: k.Message, Ranker: ranker, RankReason: reason, DryRun: l.Settings.DryRun, State: StateKilling,
	}
	if record.DryRun {
		record.State = StateDryRun
	} else if err := l.Journal.SaveKill(journaled(k)); err != nil {
		l.Log.Error("kill is not in the journal, a restart would forget it", "pod", k.Pod.String(), "uid", uid, "error", err)
	}
	return l.inFlight(&flight{kill: k, hard: hard, record: record})
}

// inFlight makes f one of those that keep others from being taken.
func (l *Loop) inFlight(f *flight) *flight {
	f.shorten = make(chan struct{})
	l.flights[f.kill.Pod.Row.UID] = f
	l.Metrics.KillsInFlight(len(l.flights))
	if len(l.history) == maxHistory {
		l.history = slices.Delete(l.history, 0, 1)
	}
	l.history = append(l.history, f.record)
	return f
}

// dispatch sends the event and then the kill.
func (l *Loop) dispatch(f *flight) {
	if f.record.DryRun {
		l.killing.Go(func() { l.pretend(f.kill.Pod.Row.UID) })
		return
	}
	l.Recorder.PodEvent(f.kill.Pod, "Warning", actuate.ReasonEvicted, f.kill.Message, f.kill.Annotations)
	l.launch(f)
}

// resume finishes the kills that a former host decided on.
func (l *Loop) resume() {
	for _, j := range l.Restored.Kills {
		k := Kill{
			Pod:    pods.Pod{Row: eviction.Pod{UID: j.UID, Namespace: j.Namespace, Name: j.Name}, SandboxIDs: j.SandboxIDs, ContainerIDs: j.ContainerIDs},
			Signal: j.Signal, GraceSeconds: j.GraceSeconds, Message: j.Message,
		}
		l.Log.Warn("finishing a kill that a former evictd decided on", "pod", k.Pod.String(), "uid", j.UID, "signal", j.Signal, "graceSeconds", j.GraceSeconds)
		record := &Eviction{Time: time.Now(), Pod: k.Pod.String(), UID: j.UID, Signal: j.Signal, GraceSeconds: j.GraceSeconds, Message: j.Message, Resumed: true, State: StateKilling}
		l.launch(l.inFlight(&flight{kill: k, record: record}))
	}
}

func journaled(k Kill) rundir.Kill {
	return rundir.Kill{
		UID: k.Pod.Row.UID, Namespace: k.Pod.Row.Namespace, Name: k.Pod.Row.Name, Signal: k.Signal,
		GraceSeconds: k.GraceSeconds, Message: k.Message, SandboxIDs: k.Pod.SandboxIDs, ContainerIDs: k.Pod.ContainerIDs,
	}
}

// launch runs the kill and the wait for its end beside the loop. When the host
// ends first there is nothing to report: the journal keeps the kill.
func (l *Loop) launch(f *flight) {
	ctx, k := l.killCtx, f.kill
	l.killing.Go(func() {
		started := time.Now()
		err := l.killOrShorten(ctx, f)
		if ctx.Err() != nil {
			return
		}
		l.tell(ctx, report{uid: k.Pod.Row.UID, err: err, took: time.Since(started)})
		finished := l.awaitEnd(ctx, k)
		if ctx.Err() != nil {
			return
		}
		l.tell(ctx, report{uid: k.Pod.Row.UID, ended: true, finished: finished, took: time.Since(started)})
	})
}

// killOrShorten kills with the flight's grace, and again with the shortest one
// if the loop asks for it meanwhile. The runtime ends the pod by the earlier of
// the two.
func (l *Loop) killOrShorten(ctx context.Context, f *flight) error {
	first := make(chan error, 1)
	l.killing.Go(func() { first <- l.killOnce(ctx, f.kill) })
	select {
	case err := <-first:
		return err
	case <-f.shorten:
		k := f.kill
		k.GraceSeconds = shortestGraceSeconds
		return l.killOnce(ctx, k)
	}
}

// killOnce gives up after the kubelet's time.
func (l *Loop) killOnce(ctx context.Context, k Kill) error {
	ctx, cancel := context.WithTimeoutCause(ctx, actuate.Timeout(k.GraceSeconds), actuate.ErrTimeout)
	defer cancel()
	err := l.Killer.Kill(ctx, k)
	if err != nil && errors.Is(context.Cause(ctx), actuate.ErrTimeout) && !errors.Is(err, actuate.ErrTimeout) {
		return fmt.Errorf("%w: %w", actuate.ErrTimeout, err)
	}
	return err
}

// awaitEnd waits until the pod is finished, at most cleanupWait.
func (l *Loop) awaitEnd(ctx context.Context, k Kill) bool {
	ctx, cancel := context.WithTimeout(ctx, cleanupWait)
	defer cancel()
	for wait := firstCleanupLook; ; wait = min(2*wait, maxCleanupLook) {
		look, done := context.WithTimeout(ctx, finishedDeadline)
		finished, err := l.Killer.Finished(look, k)
		done()
		if err == nil && finished {
			return true
		}
		if err != nil && ctx.Err() == nil {
			l.Log.Warn("end of the pod not known", "pod", k.Pod.String(), "uid", k.Pod.Row.UID, "error", err)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// pretend keeps a dry run from deciding on the same pod all the time.
func (l *Loop) pretend(uid string) {
	select {
	case <-l.killCtx.Done():
	case <-time.After(cleanupWait):
		l.tell(l.killCtx, report{uid: uid, ended: true})
	}
}

func (l *Loop) tell(ctx context.Context, r report) {
	select {
	case l.reports <- r:
	case <-ctx.Done():
	}
}

// shorten has victims that are dying of a soft threshold end at once when a
// hard one is met: grace may be shortened, never lengthened.
func (l *Loop) shorten(t policy.Threshold) {
	if !t.Hard() || l.Settings.DryRun {
		return
	}
	for uid, f := range l.flights {
		if f.hard || f.shortened || f.kill.GraceSeconds <= shortestGraceSeconds {
			continue
		}
		l.Log.Warn("hard threshold met while the victim of a soft one is dying, shortening its grace period", "pod", f.kill.Pod.String(), "uid", uid,
			"signal", t.Signal, "from", f.kill.GraceSeconds, "to", shortestGraceSeconds)
		k := f.kill
		k.GraceSeconds = shortestGraceSeconds
		if err := l.Journal.SaveKill(journaled(k)); err != nil {
			l.Log.Error("shortened grace period is not in the journal", "pod", k.Pod.String(), "uid", uid, "error", err)
		}
		f.shortened = true
		close(f.shorten)
	}
}

// onReport takes what a kill's goroutine has to say.
func (l *Loop) onReport(r report) {
	f, ok := l.flights[r.uid]
	if !ok {
		return
	}
	pod := f.kill.Pod
	if !r.ended {
		l.Metrics.Killed(r.took, r.err)
		f.record.State = StateCleaningUp
		if r.err != nil {
			f.record.Err = r.err.Error()
			l.Log.Error("pod not killed", "pod", pod.String(), "uid", r.uid, "signal", f.kill.Signal, "took", r.took, "error", r.err)
		} else {
			l.Log.Info("pod killed", "pod", pod.String(), "uid", r.uid, "signal", f.kill.Signal, "took", r.took)
		}
		if errors.Is(r.err, actuate.ErrTimeout) {
			l.Recorder.PodEvent(pod, "Warning", actuate.ReasonExceededGracePeriod, actuate.MessageExceededGracePeriod, nil)
		}
		l.publishEvictions()
		return
	}
	delete(l.flights, r.uid)
	l.Metrics.KillsInFlight(len(l.flights))
	switch {
	case f.record.DryRun:
	case r.finished:
		f.record.State = StateFinished
		l.Log.Info("pod finished", "pod", pod.String(), "uid", r.uid, "took", r.took)
	default:
		f.record.State = StateGivenUp
		l.Log.Error("pod is still there, it becomes an ordinary candidate again", "pod", pod.String(), "uid", r.uid, "waited", r.took)
	}
	if err := l.Journal.RemoveKill(r.uid); err != nil {
		l.Log.Error("kill stays in the journal", "uid", r.uid, "error", err)
	}
	l.publishEvictions()
	l.nextFull = time.Now()
}

// drain gives kills in flight a last chance to end. What is left stays in the
// journal.
func (l *Loop) drain(cancel context.CancelFunc) {
	timeout := time.NewTimer(endOfKills)
	defer timeout.Stop()
	done := make(chan struct{})
	go func() {
		l.killing.Wait()
		close(done)
	}()
	if l.dryFlightsOnly() {
		cancel()
	}
	for waiting := true; waiting; {
		select {
		case r := <-l.reports:
			l.onReport(r)
			if len(l.flights) == 0 {
				cancel()
			}
		case <-timeout.C:
			cancel()
		case <-done:
			waiting = false
		}
	}
	for uid, f := range l.flights {
		if !f.record.DryRun {
			l.Log.Warn("kill in flight is left to the next evictd", "pod", f.kill.Pod.String(), "uid", uid)
		}
	}
}

func (l *Loop) dryFlightsOnly() bool {
	for _, f := range l.flights {
		if !f.record.DryRun {
			return false
		}
	}
	return true
}
