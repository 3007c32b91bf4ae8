// Package gc frees a node's disks through the container runtime, by the rules of
// the kubelet: container GC removes dead containers, sandboxes and leftover logs of
// pods, image GC removes images that no container uses.
//
// It does not decide when to run: the host requests it when a filesystem is short of
// space, and the plugin starts the kubelet's periodic image GC, by usage and by the
// images' age, if that is enabled because no kubelet does it.
package gc

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// Options configure a Collector.
type Options struct {
	Client *cri.Client
	// Root is the node's file tree. All file names here and in the settings are paths of the node.
	Root nodefs.FS
	// PodLogsDir holds the pods' log directories, usually /var/log/pods.
	PodLogsDir string
	// KubeletRootDir is on the kubelet's filesystem, usually /var/lib/kubelet.
	KubeletRootDir string
	Settings       Settings
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Statfs reads the free space of the filesystem with a path of the node; nil means to ask
	// the kernel.
	Statfs func(path string) (nodefs.FilesystemSample, error)
}

// Collector runs container GC and image GC, one at a time. It is safe for concurrent use. It
// remembers when images were first seen and last used, so keep one as long as the runtime is
// the same.
type Collector struct {
	Options

	settings atomic.Pointer[Settings]
	// urgent is the number of GCs that the host waits for.
	urgent atomic.Int32
	// turn holds a value while a GC runs; it guards images and late.
	turn   chan struct{}
	images images
	late   lateQueries
}

// New returns a Collector. The settings must be valid.
func New(o Options) *Collector {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Statfs == nil {
		o.Statfs = o.Root.Statfs
	}
	c := &Collector{
		Options: o, turn: make(chan struct{}, 1),
		images: images{records: map[string]imageRecord{}, volumes: map[string][]string{}}, late: lateQueries{},
	}
	c.Apply(o.Settings)
	return c
}

// Apply sets the settings, which must be valid, for the next GC. The records of images are kept.
func (c *Collector) Apply(s Settings) {
	s = s.filled()
	c.settings.Store(&s)
}

// Containers runs container GC for the pods that the host knows; with allSourcesReady a pod that is
// not among them does not exist. progress is called with the amount reclaimed so far after each
// removal and each answer of the runtime, and otherwise every ten seconds. If there is an error, it
// joins all that went wrong, and the result is valid nevertheless.
func (c *Collector) Containers(ctx context.Context, pods []eviction.PodPhase, allSourcesReady bool, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	c.urgent.Add(1)
	defer c.urgent.Add(-1)
	s, err := c.begin(ctx, progress)
	if err != nil {
		return eviction.Reclaimed{}, err
	}
	defer c.end()
	known := make(map[string]eviction.PodState, len(pods))
	for _, pod := range pods {
		known[pod.UID] = pod.State
	}
	now := c.Now()
	g := containerGC{
		step: s, settings: *c.settings.Load(), podLogsDir: c.PodLogsDir,
		now: now, pods: &podStates{known: known, complete: allSourcesReady, since: now.Add(-podListLag), spent: map[string]bool{}},
	}
	g.run(ctx)
	return g.result(ctx)
}

// Images removes the images that no container uses, except pinned ones, the runtime's sandbox
// image and those that are too new: all, or with ImageGCToTarget until want is free. progress
// is called as in Containers. The result is valid even with an error.
func (c *Collector) Images(ctx context.Context, want eviction.Reclaimed, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	c.urgent.Add(1)
	defer c.urgent.Add(-1)
	s, err := c.begin(ctx, progress)
	if err != nil {
		return eviction.Reclaimed{}, err
	}
	defer c.end()
	g := imageGC{step: s, images: &c.images, settings: *c.settings.Load(), now: c.Now()}
	return g.run(ctx, want)
}

// Periodic removes unused images like the kubelet every five minutes: those unused for too
// long, and if the image filesystem is above the high threshold, the least recently used ones
// until it is down to the low one. It does nothing unless the settings enable it, and stops for
// a GC that the host waits for. An empty message means that there was nothing to do. The result
// is valid even with an error.
func (c *Collector) Periodic(ctx context.Context) (eviction.Reclaimed, error) {
	if s := c.settings.Load(); !s.PeriodicImageGC || *s.ImageGCHighThresholdPercent >= 100 && *s.ImageMaximumGCAge <= 0 {
		return eviction.Reclaimed{}, nil
	}
	s, err := c.begin(ctx, nil)
	if err != nil {
		return eviction.Reclaimed{}, err
	}
	defer c.end()
	began := c.settings.Load()
	g := periodicGC{
		imageGC: imageGC{step: s, images: &c.images, settings: *began, now: c.Now()},
		wanted:  func() bool { return c.urgent.Load() == 0 && c.settings.Load() == began },
	}
	return g.run(ctx)
}

// Detect lists the images and records which are new and which are in use, like the kubelet at its
// start and every five minutes. It waits for a running GC, so that it does not record images
// that are being removed.
func (c *Collector) Detect(ctx context.Context) error {
	s, err := c.begin(ctx, nil)
	if err != nil {
		return err
	}
	defer c.end()
	g := imageGC{step: s, images: &c.images, now: c.Now()}
	_, err = g.detect(ctx)
	return err
}

// begin waits until no other GC runs. Meanwhile it calls progress to show that the step is alive.
func (c *Collector) begin(ctx context.Context, progress func(eviction.Reclaimed)) (*step, error) {
	if progress == nil {
		progress = func(eviction.Reclaimed) {}
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case c.turn <- struct{}{}:
			return &step{client: c.Client, root: c.Root, statfs: c.Statfs, progress: progress, late: c.late}, nil
		case <-beat.C:
			progress(eviction.Reclaimed{})
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another garbage collection: %w", ctx.Err())
		}
	}
}

func (c *Collector) end() { <-c.turn }
