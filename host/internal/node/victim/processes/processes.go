// Package processes kills the processes of containers without the runtime. It has the kernel
// reclaim their memory at once. A killed process otherwise frees its memory only when it next
// runs, which takes seconds on a node with busy CPUs.
//
// Package victim/cri decides when to do so, and what to ask of the runtime: the caller must also
// stop the container there, or its shim stays.
package processes

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// Options configures a Killer. All fields but Root are required.
type Options struct {
	FS nodefs.FS
	// Root is the parent of kubepods in each hierarchy.
	Root string
	// Driver returns the node's cgroup driver, "" to detect it from the cgroups.
	Driver func() string
	Log    *slog.Logger
}

// A Killer kills the processes of containers. It is safe for concurrent use.
type Killer struct {
	Options
	noRelease sync.Once // to tell of it
}

// New returns a killer.
func New(o Options) *Killer { return &Killer{Options: o} }

// A Container identifies a container to kill.
type Container struct {
	PodUID string
	// QOSClass is the pod's, "" if unknown.
	QOSClass eviction.QoSClass
	ID       string
}

// Killed describes the result of a kill.
type Killed struct {
	// Processes counts those killed, Released those whose memory was reclaimed at once.
	Processes, Released int
	Took                time.Duration
	// Cgroup is the killed processes' cgroup.
	Cgroup string
}

// Find returns an error if the cgroup of c cannot be found. It wraps nodefs.ErrGone if c has none.
func (k *Killer) Find(c Container) error {
	_, _, err := k.find(c)
	return err
}

// KillPod is like Kill for all processes of a pod, those of its sandbox among them.
func (k *Killer) KillPod(ctx context.Context, uid string, qosClass eviction.QoSClass) (Killed, error) {
	return k.end(ctx, func() (nodefs.Hierarchy, string, error) {
		return k.inPod(uid, qosClass, func(h nodefs.Hierarchy, pod string) (string, error) {
			if !h.Exists(pod) {
				return "", fmt.Errorf("%s: %w", h.Path(pod), nodefs.ErrGone)
			}
			return pod, nil
		})
	})
}

// Kill kills all processes in and below the cgroup of c and no others: not those of the pod's
// sandbox, and not a process that reuses an id. It returns when the kernel has reclaimed as much of
// their memory as it can, possibly later than the end of ctx. The error wraps nodefs.ErrGone if c
// has no cgroup.
func (k *Killer) Kill(ctx context.Context, c Container) (Killed, error) {
	return k.end(ctx, func() (nodefs.Hierarchy, string, error) { return k.find(c) })
}

// end kills all processes in the cgroup that find finds.
func (k *Killer) end(ctx context.Context, find func() (nodefs.Hierarchy, string, error)) (Killed, error) {
	began := time.Now()
	h, cgroup, err := find()
	if err != nil {
		return Killed{}, err
	}
	g := group{list: func() ([]int, error) { return h.Processes(cgroup) }, kill: func() error { return h.Kill(cgroup) }, most: mostHeld}
	held, more, err := g.end(ctx)
	defer held.close()
	released, missing := held.release(ctx)
	if missing != nil {
		k.noRelease.Do(func() {
			k.Log.Warn("memory of killed processes is not taken back at once, they give it back when they get to run", "error", missing)
		})
	}
	return Killed{Processes: len(held) + more, Released: released, Took: time.Since(began), Cgroup: cgroup}, err
}

// find returns the cgroup of c and its hierarchy.
func (k *Killer) find(c Container) (nodefs.Hierarchy, string, error) {
	h, cgroup, err := k.inPod(c.PodUID, c.QOSClass, func(h nodefs.Hierarchy, pod string) (string, error) { return h.FindContainer(pod, c.ID) })
	if err != nil {
		err = fmt.Errorf("cgroup of container %s: %w", c.ID, err)
	}
	return h, cgroup, err
}

// inPod returns what find finds in one of the cgroups that a pod may have.
func (k *Killer) inPod(uid string, qosClass eviction.QoSClass, find func(h nodefs.Hierarchy, pod string) (string, error)) (nodefs.Hierarchy, string, error) {
	h, err := k.FS.PodsHierarchy()
	if err != nil {
		return h, "", err
	}
	naming, err := k.FS.Naming(k.Root, k.Driver())
	if err != nil {
		return h, "", err
	}
	var cgroup string
	err = naming.Pod(uid, string(qosClass), func(pod string) (err error) {
		cgroup, err = find(h, pod)
		return err
	})
	return h, cgroup, err
}
