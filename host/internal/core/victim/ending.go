package victim

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// cleanupWait bounds the time for which a killed pod that is not finished, its volumes
	// included, delays the next eviction (podCleanupTimeout of the kubelet).
	cleanupWait      = 30 * time.Second
	firstCleanupLook = 20 * time.Millisecond
	maxCleanupLook   = time.Second
	// kubeletLook is the kubelet's polling interval (podCleanupPollFreq).
	kubeletLook = time.Second
	// LookTimeout bounds one check of what is left of a pod.
	LookTimeout = 5 * time.Second
)

// ErrTimeout reports a kill that took longer than Timeout. The pod may still end; the kubelet
// records ReasonExceededGracePeriod for it.
var ErrTimeout = errors.New("timeout waiting to kill pod")

// minTimeout is the shortest time limit of a kill.
const minTimeout = 10 * time.Second

// Timeout returns the time limit of a kill: one and a half times the grace period, so that the
// SIGKILL at its end can take effect, and at least 10 s.
func Timeout(graceSeconds int64) time.Duration {
	// Beyond a century the value is nonsense and would overflow.
	const century = 100 * 365 * 24 * 60 * 60
	grace := time.Duration(min(graceSeconds, century)) * time.Second
	return max(minTimeout, grace+grace/2)
}

// A Report describes the progress of terminating a victim.
type Report struct {
	of    *Victim // whom the Set knows
	stage stage
	// err is the result of the kill, took its duration.
	err  error
	took time.Duration
	// ok: the pod has finished, or its volumes are gone; otherwise the wait timed out.
	ok bool
	// volumes: the removal of the finished pod's volumes is still awaited.
	volumes bool
}

type stage int

const (
	killed stage = iota
	ended
	cleanedUp
)

// An Await says how to wait for the end of a killed pod: it is checked first after before, then
// after first, and with ever longer pauses up to longest.
type Await struct {
	before, first, longest time.Duration
	// volumes: their end is awaited in any case.
	volumes bool
}

// The ways to wait. AwaitEvictd checks often at first: most pods are gone as soon as their
// containers are. AwaitKubelet checks each second, for the first time after one.
var (
	AwaitEvictd  = Await{0, firstCleanupLook, maxCleanupLook, false}
	AwaitKubelet = Await{kubeletLook, kubeletLook, kubeletLook, true}
)

// waitsForVolumes reports whether the kill takes effect only when the pod's volumes are gone, which
// the kubelet waits for (PodIsFinished): it removes them after the containers have ended. Processes are back by then,
// and memory, except for that of memory-backed volumes.
func (v *Victim) waitsForVolumes() bool {
	d, _ := eviction.Builtin(v.Signal)
	return v.Limit || d.Condition == eviction.DiskPressure || d.Condition != eviction.PIDPressure && slices.ContainsFunc(v.Pod.Row.Volumes, func(v eviction.Volume) bool {
		return v.Kind == "emptyDir" && v.Medium != ""
	})
}

// An ending kills a victim and waits for its end, in its own goroutine.
type ending struct {
	of      *Victim // not looked at here
	victim  Victim
	volumes bool // their end is waited for too
	how     Await
	killer  Killer
	log     *slog.Logger
	reports chan<- Report
	running *sync.WaitGroup
}

// run reports each stage. If ctx ends first it reports nothing: the kill stays in the journal.
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
	// A pod that could not be killed still gets its grace period, and is killed at the end of it.
	if killed := started.Add(e.grace() + minTimeout); failed != nil && killed.After(until) {
		until = killed
	}
	pause(ctx, e.how.before)
	finished := e.await(ctx, until, e.killer.Finished)
	volumes := finished && e.volumes
	if e.tell(ctx, Report{stage: ended, ok: finished, volumes: volumes, took: time.Since(started)}) && volumes {
		e.tell(ctx, Report{stage: cleanedUp, ok: e.await(ctx, until, e.killer.CleanedUp)})
	}
}

// kill kills with the victim's grace period, and again with a shorter one if Shorten asks for it
// meanwhile. The runtime uses the earlier deadline of the two.
func (e ending) kill(ctx context.Context) error {
	first := make(chan error, 1)
	e.running.Go(func() { first <- e.killer.Kill(ctx, e.victim) })
	select {
	case err := <-first:
		return err
	case seconds := <-e.victim.shorten:
		return e.killer.Kill(ctx, e.victim.within(seconds))
	}
}

// grace returns the victim's grace period, 0 after it was shortened.
func (e ending) grace() time.Duration {
	select {
	case <-e.victim.shorten:
		return 0
	default:
		return time.Duration(e.victim.GraceSeconds) * time.Second
	}
}

// await polls until is reports true for a killed pod, or until then.
func (e ending) await(ctx context.Context, until time.Time, is func(context.Context, Victim) (bool, error)) bool {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for wait := e.how.first; ; wait = min(2*wait, e.how.longest) {
		look, done := context.WithTimeout(ctx, LookTimeout)
		it, err := is(look, e.victim)
		done()
		if err == nil && it {
			return true
		}
		if err != nil && ctx.Err() == nil {
			e.log.Warn("end of the pod not known", "pod", e.victim.Key(), "uid", e.victim.UID, "error", err)
		}
		if pause(ctx, wait); ctx.Err() != nil {
			return false
		}
	}
}

// tell sends a report. It returns false if the report was not received, or if the ending must stop.
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
