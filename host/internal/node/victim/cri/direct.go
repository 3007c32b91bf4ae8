package cri

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/node/victim/processes"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// killAt kills the processes of a container at the given time, if stopped is not called before.
// stopped waits until they are killed and briefly for their memory, at most until ctx ends.
func (k *Killer) killAt(ctx context.Context, at time.Time, v victim.Victim, id string) (stopped func()) {
	if k.Processes == nil {
		return func() {}
	}
	early, stop := context.WithCancel(ctx)
	ctx, giveUp := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		k.tellUnfound(early, v, id)
		if sleep(early, time.Until(at)) == nil {
			k.killProcesses(ctx, v, id)
		}
	})
	return func() {
		stop()
		defer giveUp()
		defer time.AfterFunc(releaseTimeout, giveUp).Stop()
		running.Wait()
	}
}

// errDead ends calls of the runtime for a pod that has no process any more.
var errDead = errors.New("the pod has no process any more")

// killPodAt kills all processes of a pod at the given time, unless end is called before with stopped.
// Without it end waits until they are killed, at most until ctx ends. Then it calls dead with errDead,
// since the runtime may not answer for long.
func (k *Killer) killPodAt(ctx context.Context, at time.Time, v victim.Victim, dead context.CancelCauseFunc) (end func(stopped bool)) {
	if k.Processes == nil {
		return func(bool) {}
	}
	early, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if sleep(early, time.Until(at)) != nil {
			return
		}
		k.killProcesses(ctx, v, "")
		if k.awaitDeath(ctx, v.UID) {
			dead(errDead)
		}
	})
	return func(stopped bool) {
		if stopped {
			stop()
		}
		running.Wait()
		stop()
	}
}

// awaitDeath waits until a pod whose processes were killed has none, at most for releaseTimeout.
func (k *Killer) awaitDeath(ctx context.Context, uid string) bool {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	for !k.Lister.Ended(ctx, uid) {
		if sleep(ctx, firstRetry) != nil {
			return false
		}
	}
	return true
}

// tellUnfound logs a running container whose cgroup was not found, unless the pod has no process: a runtime that
// is slow may list one that was killed.
func (k *Killer) tellUnfound(ctx context.Context, v victim.Victim, id string) {
	_, err := hang.Do(ctx.Done(), func() (struct{}, error) { return struct{}{}, k.Processes.Find(container(v, id)) }, nil)
	if !errors.Is(err, nodefs.ErrGone) || k.Lister.Ended(ctx, v.UID) || k.exited(ctx, id) || ctx.Err() != nil {
		return
	}
	if _, another := k.unfound.LoadOrStore(v.UID, nil); !another {
		k.Log.Warn("cgroup of a container not found, only the runtime kills its processes", "pod", v.Key(), "uid", v.UID, "container", id, "error", err)
	}
}

func container(v victim.Victim, id string) processes.Container {
	return processes.Container{PodUID: v.UID, QOSClass: v.Pod.Row.QoSClass, ID: id}
}

// killProcesses kills the processes of a container, or without an id those of the whole pod.
func (k *Killer) killProcesses(ctx context.Context, v victim.Victim, id string) {
	done, err := hang.Do(ctx.Done(), func() (processes.Killed, error) {
		if id == "" {
			return k.Processes.KillPod(ctx, v.UID, v.Pod.Row.QoSClass)
		}
		return k.Processes.Kill(ctx, container(v, id))
	}, nil)
	about := []any{
		"pod", v.Key(), "uid", v.UID, "container", id, "processes", done.Processes, "released", done.Released,
		"tookSeconds", done.Took.Round(time.Microsecond).Seconds(),
	}
	_, killed := k.killed.Load(v.UID)
	none := errors.Is(err, nodefs.ErrGone) || err == nil && done.Processes == 0
	switch {
	case none && id == "" && (killed || k.Lister.Ended(ctx, v.UID)): // it has ended
	case none && id == "":
		k.Log.Warn("no process of the pod found to kill, the container runtime has not stopped it", append(about, "cgroup", done.Cgroup, "error", err)...)
	case errors.Is(err, nodefs.ErrGone): // it has ended, or was already reported
	case err != nil:
		k.Log.Warn("processes not killed, the runtime does it", append(about, "error", err)...)
	case done.Processes > 0:
		k.killed.Store(v.UID, nil)
		k.Log.Info("processes killed", about...)
	}
}
