package victim

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// cleanupWait is the time for which a killed pod that is not finished, its volumes included,
	// keeps the next victim safe (podCleanupTimeout of the kubelet).
	cleanupWait      = 30 * time.Second
	firstCleanupLook = 20 * time.Millisecond
	maxCleanupLook   = time.Second
	// kubeletLook is the kubelet's polling interval (podCleanupPollFreq).
	kubeletLook = time.Second
	// LookTimeout bounds one look at what is left of a pod.
	LookTimeout = 5 * time.Second
)

// A Report describes the progress of a victim's end.
type Report struct {
	of    *Victim // whom the Set knows
	stage stage
	// err is the result of the kill, took the time since it began.
	err  error
	took time.Duration
	// ok: the pod has finished, or its volumes are gone, rather than given up on.
	ok bool
	// volumes: a finished pod's are waited for.
	volumes bool
}

type stage int

const (
	killed stage = iota
	ended
	cleanedUp
)

// looks says how often the end of a pod is looked for: so long after the kill for the
// first time, then with a first wait and ever longer ones.
type looks struct{ before, first, longest time.Duration }

// cleanupLooks are often at first: most pods are gone as soon as their containers
// are. The kubelet looks each second, and not before the first is over.
func cleanupLooks(asKubelet bool) looks {
	if asKubelet {
		return looks{kubeletLook, kubeletLook, kubeletLook}
	}
	return looks{0, firstCleanupLook, maxCleanupLook}
}

// An ending kills a victim and waits for its end, in a goroutine of its own.
type ending struct {
	of      *Victim // not looked at here
	victim  Victim
	volumes bool // their end is waited for too
	looks   looks
	killer  Killer
	log     *slog.Logger
	reports chan<- Report
	running *sync.WaitGroup
}

// run reports each stage. When ctx ends first there is nothing to report: the
// journal keeps the kill.
func (e ending) run(ctx context.Context) {
	started := time.Now()
	if e.victim.DryRun { // keeps a dry run from deciding on the same pod all the time
		pause(ctx, cleanupWait)
		e.tell(ctx, Report{stage: ended})
		return
	}
	var failed error
	if !e.victim.gone {
		failed = e.kill(ctx)
		if !e.tell(ctx, Report{stage: killed, err: failed, took: time.Since(started)}) {
			return
		}
	}
	until := time.Now().Add(cleanupWait)
	// A pod that could not be killed has its grace all the same, and is killed at the end.
	if killed := started.Add(e.grace() + minTimeout); failed != nil && killed.After(until) {
		until = killed
	}
	pause(ctx, e.looks.before)
	finished := e.await(ctx, until, e.killer.Finished)
	volumes := finished && e.volumes
	if e.tell(ctx, Report{stage: ended, ok: finished, volumes: volumes, took: time.Since(started)}) && volumes {
		e.tell(ctx, Report{stage: cleanedUp, ok: e.await(ctx, until, e.killer.CleanedUp)})
	}
}

// kill kills with the victim's grace, and again with the shortest one if that is
// asked for meanwhile. The runtime ends the pod by the earlier of the two.
func (e ending) kill(ctx context.Context) error {
	first := make(chan error, 1)
	e.running.Go(func() { first <- e.killer.Kill(ctx, e.victim) })
	select {
	case err := <-first:
		return err
	case <-e.victim.shorten:
		return e.killer.Kill(ctx, e.victim.shortest())
	}
}

// grace returns the victim's grace period, 0 if it was shortened.
func (e ending) grace() time.Duration {
	select {
	case <-e.victim.shorten:
		return 0
	default:
		return time.Duration(e.victim.GraceSeconds) * time.Second
	}
}

// await waits until it is true of a killed pod, at most until then.
func (e ending) await(ctx context.Context, until time.Time, is func(context.Context, Victim) (bool, error)) bool {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for wait := e.looks.first; ; wait = min(2*wait, e.looks.longest) {
		look, done := context.WithTimeout(ctx, LookTimeout)
		it, err := is(look, e.victim)
		done()
		if err == nil && it {
			return true
		}
		if err != nil && ctx.Err() == nil {
			e.log.Warn("end of the pod not known", "pod", e.victim.Name, "uid", e.victim.UID, "error", err)
		}
		if pause(ctx, wait); ctx.Err() != nil {
			return false
		}
	}
}

// tell reports whether the report was received, and it makes sense to go on.
func (e ending) tell(ctx context.Context, r Report) bool {
	r.of = e.of
	if ctx.Err() != nil {
		return false
	}
	select {
	case e.reports <- r:
		return true
	case <-ctx.Done():
		return false
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
