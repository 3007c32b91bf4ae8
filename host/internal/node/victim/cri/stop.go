package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/victim/processes"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// An unreachable runtime is retried soon: mostly it restarts within a second, and the node is
	// short of something meanwhile.
	firstRetry = 20 * time.Millisecond
	maxRetry   = 500 * time.Millisecond
	// leastSeconds is the minimum grace of a container after its hook or its wait for others, even
	// if these used up the grace period.
	leastSeconds = 1
	// podMargin is the time after the grace period when all processes of a pod are killed if the
	// runtime has not stopped it. They may be in its sandbox (gVisor, Kata), or unknown to evictd.
	podMargin = 1500 * time.Millisecond
	// releaseTimeout bounds the wait of a stopped container for its memory to be reclaimed.
	releaseTimeout = time.Second
)

// errDead ends calls of the runtime for a pod that has no process any more.
var errDead = errors.New("the pod has no process any more")

// A termination is one call that stops a pod, or containers of it.
type termination struct {
	*Killer
	victim    victim.Victim
	pod       *pod
	graceEnds time.Time
}

// run stops a pod, and kills its processes if it is not stopped soon after its grace period. It finds
// the sandboxes and containers if only the uid is known. Once the pod has no process run returns no
// error, since the runtime may not answer for long.
func (t termination) run(ctx, hooks context.Context) (stopped bool, err error) {
	defer func() {
		if errors.Is(err, errDead) {
			err = nil
		}
	}()
	if len(t.victim.Pod.SandboxIDs) == 0 && len(t.victim.Pod.ContainerIDs) == 0 {
		var left *criclient.Pod
		_, err := t.orKillAt(ctx, t.graceEnds, func(ctx context.Context) (found bool, err error) {
			err = retry(ctx, "find pod "+t.victim.UID, func() (err error) {
				left, err = t.Lister.Pod(ctx, t.victim.UID, time.Now())
				return err
			})
			return err == nil, err
		})
		if err != nil {
			return false, err
		}
		slices.SortFunc(left.Sandboxes, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()) })
		t.victim.Pod.SandboxIDs, t.victim.Pod.ContainerIDs = left.Ready(), left.Left()
		t.victim.Pod.Row.Containers = nil // others may have been created since
		for _, c := range left.Containers {
			t.victim.Pod.Row.Containers = append(t.victim.Pod.Row.Containers, eviction.Container{Name: c.GetMetadata().GetName(), ID: c.GetId()})
		}
	}
	return t.orKillAt(ctx, t.graceEnds.Add(podMargin), func(ctx context.Context) (bool, error) { return t.stop(ctx, hooks) })
}

// orKillAt calls do, and kills all processes of a pod at the given time, unless do has returned true
// before. If do returns false it waits until they are killed, at most until ctx ends. Once the pod has
// no process it ends the context of do and returns errDead.
func (t termination) orKillAt(ctx context.Context, at time.Time, do func(context.Context) (bool, error)) (done bool, err error) {
	if t.Processes == nil {
		return do(ctx)
	}
	ctx, dead := context.WithCancelCause(ctx)
	defer dead(nil)
	early, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() {
		if sleep(early, time.Until(at)) != nil {
			return
		}
		t.killProcesses(ctx, "")
		soon, cancel := context.WithTimeout(ctx, releaseTimeout)
		defer cancel()
		for !t.Lister.Ended(soon, t.victim.UID) {
			if sleep(soon, firstRetry) != nil {
				return
			}
		}
		dead(errDead)
	})
	if done, err = do(ctx); done {
		stop()
	}
	running.Wait()
	if errors.Is(context.Cause(ctx), errDead) {
		err = errDead
	}
	return done, err
}

// stop stops the containers of a pod, each after its predecessors and its hook, and then the
// sandboxes. It reports whether it stopped the sandboxes, regardless of errors of containers, or the
// containers if no sandbox is left. No hook runs once hooks has ended.
func (t termination) stop(ctx, hooks context.Context) (stopped bool, err error) {
	steps := stepsOf(t.victim.Pod)
	ended := make([]chan struct{}, len(steps))
	for i := range ended {
		ended[i] = make(chan struct{})
	}
	stopContainers := each(steps, func(i int, s step) error {
		defer close(ended[i])
		least := int64(0)
		if s.preStop() != nil && hooks.Err() == nil {
			least = leastSeconds
			t.runHook(ctx, hooks, s)
		}
		if len(s.after) > 0 && time.Now().Before(t.graceEnds) {
			least = leastSeconds
			turn, cancel := context.WithDeadline(ctx, t.graceEnds)
			defer cancel()
			for _, j := range s.after {
				select {
				case <-ended[j]:
				case <-turn.Done():
				}
			}
		}
		return t.stopContainer(ctx, s.id, least)
	})
	if ctx.Err() != nil {
		return false, stopContainers
	}
	// Sandboxes are stopped even if a container could not be: stopping a sandbox ends everything in
	// it.
	stopSandboxes := each(t.victim.Pod.SandboxIDs, func(_ int, id string) error {
		return retry(ctx, "stop pod sandbox "+id, func() error {
			_, err := t.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
			return err
		})
	})
	return stopSandboxes == nil && (len(t.victim.Pod.SandboxIDs) > 0 || stopContainers == nil), errors.Join(stopContainers, stopSandboxes)
}

// runHook runs a container's hook and logs the result: the container is stopped regardless.
func (t termination) runHook(ctx, hooks context.Context, s step) {
	began := time.Now()
	err := t.hooks.run(hooks, s, t.victim.Pod.SandboxIDs)
	if ctx.Err() != nil {
		return // the kill is given up, and nothing is stopped
	}
	about := []any{"pod", t.victim.Key(), "uid", t.victim.UID, "container", s.of.Name, "tookSeconds", time.Since(began).Round(time.Millisecond).Seconds()}
	if err != nil {
		t.Log.Warn("preStop hook failed, the container is stopped all the same", append(about, "error", err)...)
	} else {
		t.Log.Info("preStop hook ended", about...)
	}
}

// stopContainer stops a container with the rest of the grace period, at least least seconds. Then it
// kills the processes, whatever the runtime does, and waits briefly for their memory.
func (t termination) stopContainer(ctx context.Context, id string, least int64) error {
	if err := context.Cause(ctx); err != nil { // while it waited
		return fmt.Errorf("stop container %s: %w", id, err)
	}
	graceEnds := t.graceEnds
	if ends := time.Now().Add(time.Duration(least) * time.Second); ends.After(graceEnds) {
		graceEnds = ends
	}
	early, stop := context.WithCancel(ctx)
	direct, giveUp := context.WithCancel(ctx)
	var running sync.WaitGroup
	if t.Processes != nil {
		running.Go(func() {
			t.tellUnfound(early, id)
			if sleep(early, time.Until(graceEnds)) == nil {
				t.killProcesses(direct, id)
			}
		})
	}
	defer func() {
		stop()
		defer giveUp()
		defer time.AfterFunc(releaseTimeout, giveUp).Stop()
		running.Wait()
	}()
	return retry(ctx, "stop container "+id, func() error {
		_, err := t.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: secondsUntil(graceEnds)})
		if err != nil && t.exited(ctx, id) {
			return nil
		}
		return err
	})
}

// tellUnfound logs a running container whose cgroup was not found, unless the pod has no process: a runtime that
// is slow may list one that was killed.
func (t termination) tellUnfound(ctx context.Context, id string) {
	_, err := hang.Do(ctx.Done(), func() (struct{}, error) { return struct{}{}, t.Processes.Find(t.container(id)) }, nil)
	if !errors.Is(err, nodefs.ErrGone) || t.Lister.Ended(ctx, t.victim.UID) || t.exited(ctx, id) || ctx.Err() != nil {
		return
	}
	if !t.pod.unfound.Swap(true) {
		t.Log.Warn("cgroup of a container not found, only the runtime kills its processes", "pod", t.victim.Key(), "uid", t.victim.UID, "container", id, "error", err)
	}
}

func (t termination) container(id string) processes.Container {
	return processes.Container{PodUID: t.victim.UID, QOSClass: t.victim.Pod.Row.QoSClass, ID: id}
}

// killProcesses kills the processes of a container, or without an id those of the whole pod.
func (t termination) killProcesses(ctx context.Context, id string) {
	done, err := hang.Do(ctx.Done(), func() (processes.Killed, error) {
		if id == "" {
			return t.Processes.KillPod(ctx, t.victim.UID, t.victim.Pod.Row.QoSClass)
		}
		return t.Processes.Kill(ctx, t.container(id))
	}, nil)
	about := []any{
		"pod", t.victim.Key(), "uid", t.victim.UID, "container", id, "processes", done.Processes, "released", done.Released,
		"tookSeconds", done.Took.Round(time.Microsecond).Seconds(),
	}
	none := errors.Is(err, nodefs.ErrGone) || err == nil && done.Processes == 0
	switch {
	case none && id == "" && (t.pod.killed.Load() || t.Lister.Ended(ctx, t.victim.UID)): // it has ended
	case none && id == "":
		t.Log.Warn("no process of the pod found to kill, the container runtime has not stopped it", append(about, "cgroup", done.Cgroup, "error", err)...)
	case errors.Is(err, nodefs.ErrGone): // it has ended, or was already reported
	case err != nil:
		t.Log.Warn("processes not killed, the runtime does it", append(about, "error", err)...)
	case done.Processes > 0:
		t.pod.killed.Store(true)
		t.Log.Info("processes killed", about...)
	}
}

// exited reports whether a container is known to have exited. If a container exits by itself while
// being stopped, containerd 1.6 returns an error (Unknown: "failed to kill container ... ttrpc:
// closed").
func (t termination) exited(ctx context.Context, id string) bool {
	list, err := t.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: id}})
	return err == nil && !slices.ContainsFunc(list.GetContainers(), func(c *runtimeapi.Container) bool { return !criclient.Exited(c) })
}

// each calls stop for all in parallel and joins the errors in order.
func each[T any](all []T, stop func(i int, one T) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	for i, one := range all {
		wg.Go(func() { errs[i] = stop(i, one) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// retry calls the runtime until it can be reached and answers in time. NotFound counts as success:
// another program has removed the object.
func retry(ctx context.Context, what string, call func() error) error {
	var last error
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = firstRetry, maxRetry
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = call()
		switch status.Code(last) {
		case codes.OK, codes.NotFound:
			return struct{}{}, nil
		case codes.Unavailable, codes.DeadlineExceeded:
			return struct{}{}, last
		default:
			return struct{}{}, backoff.Permanent(last)
		}
	}, backoff.WithBackOff(pace), backoff.WithMaxElapsedTime(0))
	if err == nil {
		return nil
	}
	if gaveUp := context.Cause(ctx); gaveUp != nil {
		// The reason for giving up, and the runtime's last error.
		return fmt.Errorf("%s: %w (%w)", what, gaveUp, last)
	}
	return fmt.Errorf("%s: %w", what, err)
}
