// Package processes kills the processes of containers without the runtime, and has the kernel
// reclaim their memory at once. A killed process otherwise frees its memory only when it next runs,
// which takes seconds on a node with busy CPUs.
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
}

// Find returns an error if the cgroup of c cannot be found. It wraps nodefs.ErrGone if c has none.
func (k *Killer) Find(c Container) error {
	_, _, err := k.find(c)
	return err
}

// Kill kills all processes in and below the cgroup of c and no others: not those of the pod's
// sandbox, and not a process that reuses an id. It returns when the kernel has reclaimed as much of
// their memory as it can, possibly later than the end of ctx. The error wraps nodefs.ErrGone if c
// has no cgroup.
func (k *Killer) Kill(ctx context.Context, c Container) (Killed, error) {
	began := time.Now()
	h, cgroup, err := k.find(c)
	if err != nil {
		return Killed{}, fmt.Errorf("cgroup of container %s: %w", c.ID, err)
	}
	g := group{list: func() ([]int, error) { return h.Processes(cgroup) }, kill: func() error { return h.Kill(cgroup) }, most: mostHeld}
	held, more, err := g.end(ctx)
	defer held.close()
	done := Killed{Processes: len(held) + more}
	var missing error
	done.Released, missing = held.release(ctx)
	if missing != nil {
		k.noRelease.Do(func() {
			k.Log.Warn("memory of killed processes is not taken back at once, they give it back when they get to run", "error", missing)
		})
	}
	done.Took = time.Since(began)
	return done, err
}

// find returns the cgroup of c and its hierarchy.
func (k *Killer) find(c Container) (nodefs.Hierarchy, string, error) {
	h, err := k.FS.PodsHierarchy()
	if err != nil {
		return h, "", err
	}
	naming, err := k.FS.Naming(k.Root, k.Driver())
	if err != nil {
		return h, "", err
	}
	var cgroup string
	err = naming.Pod(c.PodUID, string(c.QOSClass), func(pod string) (err error) {
		cgroup, err = h.FindContainer(pod, c.ID)
		return err
	})
	return h, cgroup, err
}
