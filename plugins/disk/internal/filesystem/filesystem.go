// Package filesystem finds the filesystems of images, writable layers and pods, and
// reads their free space: it provides the layout and the figures of the signals
// nodefs.*, imagefs.* and containerfs.*.
//
// The runtime names the directories of images and writable layers, cAdvisor's library finds the
// device of a directory and its mount point, and each observation makes one statfs call per
// filesystem. The package does not measure the usage of pods (podusage) and frees nothing (gc). It
// writes nothing, so that a full disk is observed like any other.
package filesystem

import (
	"context"
	"errors"
	"path"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
)

// longestWait limits the wait of Observe for filesystems and the runtime if its caller sets no
// deadline.
const longestWait = 500 * time.Millisecond

// Filesystems observes the node's filesystems. Its methods may be called
// concurrently.
type Filesystems struct {
	root    nodefs.FS
	kubelet *place
	runtime runtime
	// logs and volumes are the places of pods' logs and volumes.
	logs, volumes *place

	mu         sync.Mutex
	images     *place // nil until the runtime has named the directory
	containers *place // same as images unless the runtime named another directory
	report     eviction.LayoutReport
	detected   bool // report comes from three filesystems that have all answered
	layout     eviction.Layout
	seen       seen
	missing    time.Time // since when there has been no image filesystem
	warned     bool      // that logs of pods have no signal
}

// New returns the filesystems of the node that facts describe. It reads nothing before the first
// Observe. Call Close after the last one.
func New(facts eviction.NodeFacts, images ImageFilesystems) *Filesystems {
	root := nodefs.FS{Root: facts.RootDir}
	return &Filesystems{
		root: root, kubelet: newPlace(root, facts.KubeletRootDir), runtime: newRuntime(images),
		logs: newPlace(root, facts.PodLogsDir), volumes: newPlace(root, path.Join(facts.KubeletRootDir, "pods")),
	}
}

// Observe reads the figures of those signals that have a filesystem, and reports the layout. It
// returns well before the deadline of ctx with what it has: a signal whose filesystem does not
// answer is Unknown, and so are those of images and writable layers until the runtime has named
// their directories once. It returns an error only after Close.
func (f *Filesystems) Observe(ctx context.Context, signals []eviction.Signal) ([]eviction.Observation, eviction.LayoutReport, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	node := f.kubelet.look(ctx) // in parallel with the runtime, which must not delay it
	logs, volumes := f.logs.look(ctx), f.volumes.look(ctx)
	var all samples
	named, err := f.runtime.directories(ctx)
	if err != nil {
		all.image = &sample{err: err}
		all.container = all.image
	} else {
		all.image, all.container = f.lookAtImages(ctx, named)
	}
	all.node = node.wait()
	if errors.Is(err, answers.ErrClosed) {
		return nil, eviction.LayoutReport{}, err
	}
	report := f.detect(&all)
	f.note(seen{all, logs.wait(), volumes.wait()})
	observations := make([]eviction.Observation, 0, len(signals))
	components := make([]eviction.Component, figures.MostComponents*len(signals))
	for _, s := range signals {
		if of := all.of(s); of != nil {
			o := of.observation(s, components[:0:figures.MostComponents])
			if of.err == nil && all.image.err == nil && of.on(all.image, false) {
				named.addImages(&o)
			}
			observations = append(observations, o)
			components = components[figures.MostComponents:]
		}
	}
	return observations, report, nil
}

// bounded leaves the caller half of its time, so that the known figures arrive even if a
// filesystem hangs.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := longestWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline) / 2
	}
	return context.WithTimeout(ctx, wait)
}

func (f *Filesystems) lookAtImages(ctx context.Context, named directories) (image, container *sample) {
	images, containers := f.places(named)
	look := images.look(ctx)
	if containers == images {
		image = look.wait()
		return image, image
	}
	container = containers.look(ctx).wait()
	return look.wait(), container
}

// places returns the places of the directories that the runtime has named. It keeps existing
// ones, with their calls in progress.
func (f *Filesystems) places(named directories) (images, containers *place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.images == nil || f.images.dir != named.images {
		f.images = newPlace(f.root, named.images)
	}
	switch {
	case named.containers == named.images:
		f.containers = f.images
	case f.containers == nil || f.containers.dir != named.containers:
		f.containers = newPlace(f.root, named.containers)
	}
	return f.images, f.containers
}

// Close ends what Observe has begun and waits for an outstanding answer of the runtime. It does
// not wait for a filesystem that hangs.
func (f *Filesystems) Close() { f.runtime.input.Close() }
