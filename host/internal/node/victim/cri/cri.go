// Package cri kills pods through the container runtime. Package victim decides when and how.
package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/victim/processes"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
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
	// lookTimeout bounds the wait for the runtime's lists before the cgroup of a pod tells its end.
	lookTimeout = 500 * time.Millisecond
	// releaseTimeout bounds the wait of a stopped container for its memory to be reclaimed.
	releaseTimeout = time.Second
	// staleAfter is the time after its grace period when a kill that took too long is given up.
	staleAfter = time.Minute
)

// Options configures a Killer.
type Options struct {
	Runtime runtimeapi.RuntimeServiceClient
	// Lister lists what is left of pods; nil means one of its own.
	Lister *criclient.Lister
	// PodsDir returns the path of the directory that has one for each pod, by uid.
	PodsDir func() string
	// Processes kills what is left of a container after its grace period, in parallel to the
	// runtime. It may be nil.
	Processes *processes.Killer
	// Log receives the results of hooks and kills.
	Log *slog.Logger
}

// A Killer kills pods through the container runtime. It is safe for concurrent use.
type Killer struct {
	Options
	hooks hooks

	// cuts holds, by uid, the cancel functions for the hooks of pods being killed.
	cuts sync.Map
	// unfinished holds, by uid, the end of the grace period of pods whose kill ended before their
	// sandboxes were stopped.
	unfinished sync.Map
	// unfound holds the uids of pods whose kill under way has reported a container without a
	// cgroup.
	unfound sync.Map
	// killed holds the uids of pods whose kill under way has killed processes directly.
	killed sync.Map
	// awaited holds, by uid, how new a list must be that shows the end of a killed pod: one that
	// takes longer than a look comes for the next look.
	awaited sync.Map
}

// New returns a killer.
func New(o Options) *Killer {
	if o.Lister == nil {
		o.Lister = criclient.NewLister(o.Runtime, nil)
	}
	return &Killer{Options: o, hooks: newHooks(o.Runtime)}
}

// Kill implements victim.Killer: like a kubelet it stops the containers of the pod, then its
// sandboxes. It runs each container's preStop hook first, and sidecars wait for the main
// containers, all within the grace period, plus a second for a container that has waited until its
// end. Then it kills remaining processes directly, and asks the runtime to stop the container all
// the same. It returns when the runtime has stopped them, nil also if they were gone before. While
// ctx lives it retries an unreachable runtime with the rest of the grace period. It returns
// victim.ErrTimeout after victim.Timeout, and Finished does the rest.
//
// If the runtime does not answer it returns nil once the pod has no process, and Finished does the
// rest as far as the runtime answers.
//
// A second kill of a pod meanwhile runs no hooks and cancels those of the first.
func (k *Killer) Kill(ctx context.Context, v victim.Victim) error {
	graceEnds := time.Now().Add(time.Duration(v.GraceSeconds) * time.Second)
	ctx, cancel := context.WithTimeoutCause(ctx, victim.Timeout(v.GraceSeconds), victim.ErrTimeout)
	defer cancel()
	ctx, dead := context.WithCancelCause(ctx)
	defer dead(nil)
	defer k.unfound.Delete(v.UID)
	defer k.killed.Delete(v.UID)
	k.awaited.Delete(v.UID)
	if former, ok := k.unfinished.Load(v.UID); ok && time.Since(former.(time.Time)) > staleAfter {
		k.unfinished.CompareAndDelete(v.UID, former)
	}
	hooks, done := k.hookTime(ctx, v.UID, graceEnds)
	defer done()
	stopped, err := k.kill(ctx, hooks, v, graceEnds, dead)
	if errors.Is(context.Cause(ctx), errDead) {
		err = nil
	}
	if stopped {
		k.unfinished.Delete(v.UID)
		return err
	}
	for { // a second kill, which may end at the same time, may only shorten the grace period
		former, again := k.unfinished.LoadOrStore(v.UID, graceEnds)
		if !again || !graceEnds.Before(former.(time.Time)) || k.unfinished.CompareAndSwap(v.UID, former, graceEnds) {
			return err
		}
	}
}

// hookTime returns a context for the hooks of a pod, which ends with its grace period. If another
// kill of the pod is under way it cancels that one's hooks and returns an ended context.
func (k *Killer) hookTime(ctx context.Context, uid string, graceEnds time.Time) (hooks context.Context, done func()) {
	ctx, end := context.WithDeadlineCause(ctx, graceEnds, errGraceOver)
	hooks, cut := context.WithCancelCause(ctx)
	if former, underWay := k.cuts.LoadOrStore(uid, &cut); underWay {
		(*former.(*context.CancelCauseFunc))(errSecondKill)
		cut(errSecondKill)
	}
	return hooks, func() {
		k.cuts.CompareAndDelete(uid, &cut)
		cut(nil)
		end()
	}
}

func (k *Killer) kill(ctx, hooks context.Context, v victim.Victim, graceEnds time.Time, dead context.CancelCauseFunc) (stopped bool, err error) {
	sandboxes, containers := v.Pod.SandboxIDs, v.Pod.ContainerIDs
	if len(sandboxes) == 0 && len(containers) == 0 { // only the uid is known
		found := k.killPodAt(ctx, graceEnds, v, dead)
		err := k.retry(ctx, "find pod "+v.UID, func() error {
			left, err := k.Lister.Pod(ctx, v.UID, time.Now())
			if err != nil {
				return err
			}
			slices.SortFunc(left.Sandboxes, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()) })
			sandboxes, containers = left.Ready(), left.Left()
			v.Pod.Row.Containers = nil // others may have been created since
			for _, c := range left.Containers {
				v.Pod.Row.Containers = append(v.Pod.Row.Containers, eviction.Container{Name: c.GetMetadata().GetName(), ID: c.GetId()})
			}
			return nil
		})
		found(err == nil)
		if err != nil {
			return false, err
		}
	}
	end := k.killPodAt(ctx, graceEnds.Add(podMargin), v, dead)
	defer func() { end(stopped) }()
	return k.stop(ctx, v, sandboxes, stepsOf(containers, v.Pod), graceEnds, func(s step) bool {
		if s.preStop() == nil || hooks.Err() != nil {
			return false
		}
		k.runHook(ctx, hooks, v, s, sandboxes)
		return true
	})
}

// runHook runs a container's hook and logs the result: the container is stopped regardless.
func (k *Killer) runHook(ctx, hooks context.Context, v victim.Victim, s step, sandboxes []string) {
	began := time.Now()
	err := k.hooks.run(hooks, s, sandboxes)
	if ctx.Err() != nil {
		return // the kill is given up, and nothing is stopped
	}
	about := []any{"pod", v.Key(), "uid", v.UID, "container", s.of.Name, "tookSeconds", time.Since(began).Round(time.Millisecond).Seconds()}
	if err != nil {
		k.Log.Warn("preStop hook failed, the container is stopped all the same", append(about, "error", err)...)
	} else {
		k.Log.Info("preStop hook ended", about...)
	}
}

// stop stops containers, each after its predecessors and its hook, and then the sandboxes. It
// reports whether it stopped the sandboxes, regardless of errors of containers, or the containers
// if no sandbox is left. hook reports whether a step has a hook to run.
func (k *Killer) stop(ctx context.Context, v victim.Victim, sandboxes []string, steps []step, graceEnds time.Time, hook func(step) bool) (stopped bool, err error) {
	ended := make([]chan struct{}, len(steps))
	for i := range ended {
		ended[i] = make(chan struct{})
	}
	stopContainers := each(steps, func(i int, s step) error {
		defer close(ended[i])
		waited := hook(s)
		if len(s.after) > 0 && time.Now().Before(graceEnds) {
			waited = true
			var before []<-chan struct{}
			for _, j := range s.after {
				before = append(before, ended[j])
			}
			awaitTurn(ctx, graceEnds, before)
		}
		least := int64(0)
		if waited {
			least = leastSeconds
		}
		return k.stopContainer(ctx, v, s.id, graceEnds, least)
	})
	if ctx.Err() != nil {
		return false, stopContainers
	}
	// Sandboxes are stopped even if a container could not be: stopping a sandbox ends everything in
	// it.
	stopSandboxes := each(sandboxes, func(_ int, id string) error {
		return k.retry(ctx, "stop pod sandbox "+id, func() error {
			_, err := k.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
			return err
		})
	})
	return stopSandboxes == nil && (len(sandboxes) > 0 || stopContainers == nil), errors.Join(stopContainers, stopSandboxes)
}

// StopContainers stops containers of a pod in parallel, with the rest of the grace period and
// without hooks. Like Kill it retries an unreachable runtime, and kills remaining processes
// directly.
func (k *Killer) StopContainers(ctx context.Context, v victim.Victim, ids []string, graceEnds time.Time) (err error) {
	defer k.unfound.Delete(v.UID)
	ctx, dead := context.WithCancelCause(ctx)
	defer dead(nil)
	end := k.killPodAt(ctx, graceEnds.Add(podMargin), v, dead)
	defer func() {
		end(err == nil)
		if errors.Is(context.Cause(ctx), errDead) {
			err = nil
		}
	}()
	return each(ids, func(_ int, id string) error { return k.stopContainer(ctx, v, id, graceEnds, 0) })
}

// stopContainer stops a container with the rest of the grace period, at least least seconds. Then
// its processes are killed, whatever the runtime does.
func (k *Killer) stopContainer(ctx context.Context, v victim.Victim, id string, graceEnds time.Time, least int64) error {
	if err := context.Cause(ctx); err != nil { // while it waited
		return fmt.Errorf("stop container %s: %w", id, err)
	}
	if ends := time.Now().Add(time.Duration(least) * time.Second); ends.After(graceEnds) {
		graceEnds = ends
	}
	defer k.killAt(ctx, graceEnds, v, id)()
	return k.retry(ctx, "stop container "+id, func() error {
		_, err := k.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: secondsUntil(graceEnds)})
		if err != nil && k.exited(ctx, id) {
			return nil
		}
		return err
	})
}

// Finished implements victim.Killer: no sandbox of the pod is ready and no container runs, or its
// cgroup has no process while the runtime does not answer, which must not keep the next victim. It also
// continues a kill that took too long, because the runtime kills a container only while the call to
// stop it lasts. It does not affect other pods.
func (k *Killer) Finished(ctx context.Context, v victim.Victim) (bool, error) {
	since, _ := k.awaited.LoadOrStore(v.UID, time.Now())
	soon, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	left, err := k.Lister.Pod(soon, v.UID, since.(time.Time))
	if err != nil && k.Lister.Ended(ctx, v.UID) {
		k.awaited.Delete(v.UID)
		return true, nil
	}
	if err != nil {
		left, err = k.Lister.Pod(ctx, v.UID, since.(time.Time))
	}
	if err != nil {
		return false, err
	}
	graceEnds, unfinished := k.unfinished.Load(v.UID)
	if !unfinished {
		over := !left.Running() && len(left.Ready()) == 0
		if over {
			k.awaited.Delete(v.UID)
		} else {
			k.awaited.Store(v.UID, time.Now())
		}
		return over, nil
	}
	noHooks := func(step) bool { return false } // they have had their time
	if stopped, err := k.stop(ctx, v, left.Ready(), stepsOf(left.Left(), pods.Pod{}), graceEnds.(time.Time), noHooks); !stopped {
		return false, err
	}
	k.unfinished.Delete(v.UID)
	k.awaited.Delete(v.UID)
	return true, nil
}

// CleanedUp implements victim.Killer: the pod's volumes have been removed by the program that
// created them. A disk access that hangs is abandoned.
func (k *Killer) CleanedUp(ctx context.Context, v victim.Victim) (bool, error) {
	return hang.Do(ctx.Done(), func() (bool, error) { return noVolumes(filepath.Join(k.PodsDir(), v.UID, "volumes")) }, nil)
}

// exited reports whether a container is known to have exited. If a container exits by itself while
// being stopped, containerd 1.6 returns an error (Unknown: "failed to kill container ... ttrpc:
// closed").
func (k *Killer) exited(ctx context.Context, id string) bool {
	list, err := k.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: id}})
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
func (k *Killer) retry(ctx context.Context, what string, call func() error) error {
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

// noVolumes reports whether dir/PLUGIN/ is empty for all plugins. The directories above may outlive
// the volumes.
func noVolumes(dir string) (bool, error) {
	plugins, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, p := range plugins {
		volumes, err := os.ReadDir(filepath.Join(dir, p.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if len(volumes) > 0 {
			return false, nil
		}
	}
	return true, nil
}
