package loop

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// shortestGraceSeconds is a hard eviction's grace period.
const shortestGraceSeconds = 1

// landedFor is longer than any check of limits takes, which must not find a pod
// over its limit that was a victim meanwhile.
const landedFor = time.Hour

// A flight is a victim between the decision and its end.
type flight struct {
	kill Kill
	// hard: of a hard threshold, so nothing is left to be shortened.
	hard bool
	// shorten is closed to have the pod killed with the shortest grace.
	shorten   chan struct{}
	shortened bool
	// released: there is nothing to kill any more, only its end is waited for.
	released bool
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
	// leaves: the volumes of a finished pod are waited for. volumesGone: that wait is
	// over, cleaned if nothing is left.
	leaves      bool
	volumesGone bool
	cleaned     bool
}

// leavesSpace reports whether the node has its answer to the kill only when the
// pod's volumes are gone, as the kubelet waits for (PodIsFinished): their owner
// removes them after the containers have ended. Memory and processes are back by
// then, and do not wait.
func (k *Kill) leavesSpace() bool {
	return k.Pressure && builtinFamily(k.Signal) == eviction.DiskPressure
}

// board puts a victim in flight and in the journal, so that a host that dies
// before the kill is followed by one that finishes it and takes no second victim.
func (l *Loop) board(f *flight, reason, ranker string) {
	k := f.kill
	f.record = &Eviction{
		Time: time.Now(), Pod: k.Pod.String(), UID: k.Pod.Row.UID, Signal: k.Signal, GraceSeconds: k.GraceSeconds,
		Message: k.Message, Ranker: ranker, RankReason: reason, DryRun: l.Settings.DryRun, State: StateKilling,
	}
	if f.record.DryRun {
		f.record.State = StateDryRun
	} else if err := l.Journal.SaveKill(journaled(k)); err != nil {
		l.Log.Error("kill is not in the journal, a restart would forget it", "pod", k.Pod.String(), "uid", k.Pod.Row.UID, "error", err)
	}
	l.inFlight(f)
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
	l.Recorder.PodEvent(f.kill.Pod, "Warning", victim.ReasonEvicted, f.kill.Message, f.kill.Annotations)
	l.launch(f)
}

func journaled(k Kill) rundir.Kill {
	return rundir.Kill{
		UID: k.Pod.Row.UID, Namespace: k.Pod.Row.Namespace, Name: k.Pod.Row.Name, Signal: k.Signal,
		GraceSeconds: k.GraceSeconds, Message: k.Message, SandboxIDs: k.Pod.SandboxIDs, ContainerIDs: k.Pod.ContainerIDs,
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
		k.GraceSeconds, k.GraceOverrideSeconds = shortestGraceSeconds, shortestGraceSeconds
		if err := l.Journal.SaveKill(journaled(k)); err != nil {
			l.Log.Error("shortened grace period is not in the journal", "pod", k.Pod.String(), "uid", uid, "error", err)
		}
		f.shortened = true
		l.ledger = l.ledger.Shortened(uid, shortestGraceSeconds*time.Second, l.moment())
		close(f.shorten)
	}
}

// onReport takes what a kill's goroutine has to say.
func (l *Loop) onReport(r report) {
	if r.volumesGone {
		l.cleanedUp(r.uid, r.cleaned)
		return
	}
	f, ok := l.flights[r.uid]
	if !ok {
		return
	}
	if !r.ended {
		l.killed(f, r)
		return
	}
	pod := f.kill.Pod
	l.land(r.uid)
	switch {
	case f.record.DryRun:
	case r.finished:
		f.record.State = StateFinished
		l.evicted[r.uid] = true
		l.publishEvictions() // before the log says so
		l.Log.Info("pod finished", "pod", pod.String(), "uid", r.uid, "tookSeconds", r.took.Seconds())
	default:
		f.record.State = StateGivenUp
		l.publishEvictions()
		l.Log.Error("pod is still there, it becomes an ordinary candidate again", "pod", pod.String(), "uid", r.uid, "waitedSeconds", r.took.Seconds())
	}
	if r.leaves {
		l.leaving[r.uid] = true
	} else {
		l.cleanedUp(r.uid, r.finished)
	}
	l.nextFull = time.Now()
}

// killed takes note of how a kill went. The pod's end is another matter.
func (l *Loop) killed(f *flight, r report) {
	pod := f.kill.Pod
	l.Metrics.Killed(r.took, r.err)
	f.record.State = StateCleaningUp
	if r.err != nil {
		f.record.Err = r.err.Error()
	}
	l.publishEvictions()
	if r.err != nil {
		l.Log.Error("pod not killed", "pod", pod.String(), "uid", r.uid, "signal", f.kill.Signal, "tookSeconds", r.took.Seconds(), "error", r.err)
	} else {
		l.Log.Info("pod killed", "pod", pod.String(), "uid", r.uid, "signal", f.kill.Signal, "tookSeconds", r.took.Seconds())
	}
	if errors.Is(r.err, victim.ErrTimeout) {
		l.Recorder.PodEvent(pod, "Warning", victim.ReasonExceededGracePeriod, victim.MessageExceededGracePeriod, nil)
	}
}

// cleanedUp ends what there is to know of a victim: what it has freed is on its way,
// or nothing more is to be expected of it.
func (l *Loop) cleanedUp(uid string, all bool) {
	delete(l.leaving, uid)
	if all {
		l.ledger = l.ledger.Ended(uid, l.moment())
	} else {
		l.ledger = l.ledger.Dropped(uid)
	}
	l.forgetKill(uid)
	l.nextFull = time.Now()
}

// land ends a flight.
func (l *Loop) land(uid string) {
	delete(l.flights, uid)
	l.Metrics.KillsInFlight(len(l.flights))
	now := time.Now()
	maps.DeleteFunc(l.landed, func(_ string, at time.Time) bool { return now.Sub(at) > landedFor })
	l.landed[uid] = now
}

// forgetKill takes a kill out of the journal: a next host has nothing to do or to
// wait for any more.
func (l *Loop) forgetKill(uid string) {
	if err := l.Journal.RemoveKill(uid); err != nil {
		l.Log.Error("kill stays in the journal", "uid", uid, "error", err)
	}
}

// killNow kills and waits for it. What is left of the pod afterwards is the
// caller's to wait for.
func (l *Loop) killNow(ctx context.Context, f *flight) error {
	uid := f.kill.Pod.Row.UID
	defer l.cleanedUp(uid, true)
	defer l.land(uid)
	if f.record.DryRun {
		return nil
	}
	l.Recorder.PodEvent(f.kill.Pod, "Warning", victim.ReasonEvicted, f.kill.Message, f.kill.Annotations)
	started := time.Now()
	err := l.Killer.Kill(ctx, f.kill)
	l.onReport(report{uid: uid, err: err, took: time.Since(started)})
	return err
}
