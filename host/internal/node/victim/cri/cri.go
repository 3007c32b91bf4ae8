// Package cri kills pods through the container runtime. Package victim decides when and how.
package cri

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/victim/processes"
	"github.com/evictd/evictd/shared/hang"
)

const (
	// lookTimeout bounds the wait for the runtime's lists before the cgroup of a pod tells its end.
	lookTimeout = 500 * time.Millisecond
	// staleAfter is the time after its grace period when a kill that took too long is given up. A pod
	// whose end was not seen is forgotten so long after the last change.
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

	mu sync.Mutex
	// pods holds the pods that are killed or awaited, by uid. mu guards their fields, too.
	pods map[string]*pod
}

// A pod holds what is known of one pod, from the first kill or look until its end.
type pod struct {
	// kills counts the calls of Kill under way. cut cancels the hooks of the first of them.
	kills int
	cut   context.CancelCauseFunc
	// graceEnds is the end of the grace period if a kill ended before the sandboxes were stopped.
	graceEnds time.Time
	// since: a list that shows the pod's end was asked for then or later. A list that takes longer than
	// a look comes for the next look.
	since time.Time
	// changed is the time of the last call of change.
	changed time.Time
	// unfound: a container without a cgroup was reported. killed: processes were killed directly.
	unfound, killed atomic.Bool
}

// New returns a killer.
func New(o Options) *Killer {
	if o.Lister == nil {
		o.Lister = criclient.NewLister(o.Runtime, nil)
	}
	return &Killer{Options: o, hooks: hooks{o.Runtime, newWeb()}, pods: map[string]*pod{}}
}

// change changes what is known of a pod, and returns it. It forgets pods that were not changed for long.
func (k *Killer) change(uid string, by func(*pod)) *pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.pods, func(_ string, p *pod) bool { return p.kills == 0 && time.Since(p.changed) > staleAfter })
	p := k.pods[uid]
	if p == nil {
		p = new(pod)
		k.pods[uid] = p
	}
	p.changed = time.Now()
	by(p)
	return p
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
	hooks, end := context.WithDeadlineCause(ctx, graceEnds, errGraceOver)
	defer end()
	hooks, cut := context.WithCancelCause(hooks)
	defer cut(nil)
	p := k.change(v.UID, func(p *pod) {
		p.kills++
		p.since = time.Time{}
		if time.Since(p.graceEnds) > staleAfter {
			p.graceEnds = time.Time{}
		}
		if p.cut == nil {
			p.cut = cut
		} else {
			p.cut(errSecondKill)
			cut(errSecondKill)
		}
	})
	t := termination{k, v, p, graceEnds}
	stopped, err := t.run(ctx, hooks)
	k.change(v.UID, func(p *pod) {
		if stopped {
			p.graceEnds = time.Time{}
		} else if p.graceEnds.IsZero() || graceEnds.Before(p.graceEnds) { // a second kill may only shorten it
			p.graceEnds = graceEnds
		}
		if p.kills--; p.kills == 0 {
			k.pods[v.UID] = &pod{graceEnds: p.graceEnds, changed: p.changed}
		}
	})
	return err
}

// StopContainers stops containers of a pod in parallel, with the rest of the grace period and
// without hooks. Like Kill it retries an unreachable runtime, and kills remaining processes
// directly.
func (k *Killer) StopContainers(ctx context.Context, v victim.Victim, ids []string, graceEnds time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	v.Pod.API, v.Pod.SandboxIDs, v.Pod.ContainerIDs = nil, nil, ids
	p := k.change(v.UID, func(*pod) {})
	defer p.unfound.Store(false)
	t := termination{k, v, p, graceEnds}
	_, err := t.run(ctx, ctx)
	return err
}

// Finished implements victim.Killer: no sandbox of the pod is ready and no container runs, or its
// cgroup has no process while the runtime does not answer, which must not keep the next victim. It also
// continues a kill that took too long, because the runtime kills a container only while the call to
// stop it lasts. It does not affect other pods.
func (k *Killer) Finished(ctx context.Context, v victim.Victim) (bool, error) {
	var since, graceEnds time.Time
	k.change(v.UID, func(p *pod) {
		if p.since.IsZero() {
			p.since = time.Now()
		}
		since = p.since
	})
	soon, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	left, err := k.Lister.Pod(soon, v.UID, since)
	if err != nil && k.Lister.Ended(ctx, v.UID) {
		k.change(v.UID, func(p *pod) { p.since = time.Time{} })
		return true, nil
	}
	if err != nil {
		left, err = k.Lister.Pod(ctx, v.UID, since)
	}
	if err != nil {
		return false, err
	}
	over := !left.Running() && len(left.Ready()) == 0
	p := k.change(v.UID, func(p *pod) { graceEnds = p.graceEnds })
	if !graceEnds.IsZero() {
		v.Pod.API, v.Pod.SandboxIDs, v.Pod.ContainerIDs = nil, left.Ready(), left.Left() // hooks and sidecars have had their time
		t := termination{k, v, p, graceEnds}
		if over, err = t.stop(ctx, ctx); !over {
			return false, err
		}
	}
	k.change(v.UID, func(p *pod) {
		p.since = time.Now()
		if over {
			p.since, p.graceEnds = time.Time{}, time.Time{}
			if p.kills == 0 {
				delete(k.pods, v.UID)
			}
		}
	})
	return over, nil
}

// CleanedUp implements victim.Killer: the pod's volumes have been removed by the program that
// created them. A disk access that hangs is abandoned.
func (k *Killer) CleanedUp(ctx context.Context, v victim.Victim) (bool, error) {
	return hang.Do(ctx.Done(), func() (bool, error) { return noVolumes(filepath.Join(k.PodsDir(), v.UID, "volumes")) }, nil)
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
