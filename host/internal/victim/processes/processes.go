// Package processes kills the processes of containers without asking the runtime, and has
// the kernel take their memory back at once. A process that is killed gives it back only
// when it gets to run once more, which on a node whose CPUs are busy takes seconds.
//
// When that is to be, and what is asked of the container runtime, is the business of package
// victim/cri: who kills here must stop the container there as well, or its shim stays.
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
	// Driver is the node's cgroup driver, "" if that is to be seen from the cgroups.
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

// A Container is one whose processes are to be killed.
type Container struct {
	PodUID string
	// QOSClass is the pod's, "" if it is not known.
	QOSClass eviction.QoSClass
	ID       string
}

// Killed says what was done.
type Killed struct {
	// Processes were killed, and Released is of how many of them the memory was taken back.
	Processes, Released int
	Took                time.Duration
}

// Find returns why the processes of c are not found. The error wraps nodefs.ErrGone if c has no
// cgroup.
func (k *Killer) Find(c Container) error {
	_, _, err := k.find(c)
	return err
}

// Kill kills all processes in the cgroup of c, and below it, and none that is elsewhere: not
// those of the pod's sandbox, and not one that has got the id of a process of c. It returns when
// their memory is back as far as the kernel can take it from them, which it may wait for
// longer than ctx lives. The error wraps nodefs.ErrGone if c has no cgroup.
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

// find returns where the cgroup of c is.
func (k *Killer) find(c Container) (nodefs.Hierarchy, string, error) {
	h, err := k.FS.MemoryHierarchy()
	if err != nil {
		if h, err = k.FS.PIDsHierarchy(); err != nil {
			return h, "", err
		}
	}
	naming, err := k.FS.Naming(k.Root, k.Driver())
	if err != nil {
		return h, "", err
	}
	names, err := naming.Names()
	if err != nil {
		return h, "", err
	}
	pod, err := h.FindPod(names, c.PodUID, string(c.QOSClass))
	if err != nil {
		return h, "", err
	}
	cgroup, err := h.FindContainer(pod, c.ID)
	return h, cgroup, err
}
