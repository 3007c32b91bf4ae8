package loop

import (
	"context"
	"time"
)

const (
	// cleanupWait is how long a killed pod keeps the next victim safe while it is
	// not finished, its volumes included (podCleanupTimeout of the kubelet).
	cleanupWait      = 30 * time.Second
	firstCleanupLook = 20 * time.Millisecond
	maxCleanupLook   = time.Second
	// finishedDeadline bounds one look.
	finishedDeadline = 5 * time.Second
)

// launch runs the kill and the wait for its end beside the loop. When the host
// ends first there is nothing to report: the journal keeps the kill.
func (l *Loop) launch(f *flight) {
	ctx, k, each := l.killCtx, f.kill, l.cleanupLooks()
	everything := l.Settings.Pacing == PacingKubelet || k.leavesSpace()
	l.killing.Go(func() {
		started := time.Now()
		if !f.released {
			err := l.killOrShorten(ctx, f)
			if ctx.Err() != nil {
				return
			}
			l.tell(ctx, report{uid: k.Pod.Row.UID, err: err, took: time.Since(started)})
		}
		until := time.Now().Add(cleanupWait)
		pause(ctx, each.before)
		finished := l.await(ctx, k, until, each, l.Killer.Finished)
		if ctx.Err() != nil {
			return
		}
		ended := report{uid: k.Pod.Row.UID, ended: true, finished: finished, took: time.Since(started)}
		ended.leaves = finished && everything
		l.tell(ctx, ended)
		if ended.leaves {
			cleaned := l.await(ctx, k, until, each, l.Killer.CleanedUp)
			if ctx.Err() != nil {
				return
			}
			l.tell(ctx, report{uid: k.Pod.Row.UID, volumesGone: true, cleaned: cleaned})
		}
	})
}

// looks says how often the end of a pod is looked for: so long after the kill for the
// first time, then with a first wait and ever longer ones.
type looks struct{ before, first, longest time.Duration }

// cleanupLooks are often at first: most pods are gone as soon as their containers
// are. The kubelet looks each second, and not before the first is over.
func (l *Loop) cleanupLooks() looks {
	if l.Settings.Pacing == PacingKubelet {
		return looks{cleanupPoll, cleanupPoll, cleanupPoll}
	}
	return looks{0, firstCleanupLook, maxCleanupLook}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// killOrShorten kills with the flight's grace, and again with the shortest one
// if the loop asks for it meanwhile. The runtime ends the pod by the earlier of
// the two.
func (l *Loop) killOrShorten(ctx context.Context, f *flight) error {
	first := make(chan error, 1)
	l.killing.Go(func() { first <- l.Killer.Kill(ctx, f.kill) })
	select {
	case err := <-first:
		return err
	case <-f.shorten:
		k := f.kill
		k.GraceSeconds, k.GraceOverrideSeconds = shortestGraceSeconds, shortestGraceSeconds
		return l.Killer.Kill(ctx, k)
	}
}

// await waits until it is true of a killed pod, at most until then.
func (l *Loop) await(ctx context.Context, k Kill, until time.Time, each looks, is func(context.Context, Kill) (bool, error)) bool {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for wait := each.first; ; wait = min(2*wait, each.longest) {
		look, done := context.WithTimeout(ctx, finishedDeadline)
		it, err := is(look, k)
		done()
		if err == nil && it {
			return true
		}
		if err != nil && ctx.Err() == nil {
			l.Log.Warn("end of the pod not known", "pod", k.Pod.String(), "uid", k.Pod.Row.UID, "error", err)
		}
		if pause(ctx, wait); ctx.Err() != nil {
			return false
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
