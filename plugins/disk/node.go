package disk

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/plugins/disk/internal/podusage"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// detectEvery is the time between two inspections of the images, as in the kubelet. They show
	// which images have been unused longest and are removed first.
	detectEvery = 5 * time.Minute
	// detectFor limits an inspection, detectAgain is the pause after a failed one.
	detectFor   = 30 * time.Second
	detectAgain = 10 * time.Second
	// collectFor limits the removal of images, like the host does for a reclaim step.
	collectFor = 10 * time.Minute
)

// node holds the sources of one configuration.
type node struct {
	facts       eviction.NodeFacts
	config      config
	client      *cri.Client
	filesystems *filesystem.Filesystems
	meter       *podusage.Meter
	collector   *gc.Collector

	// detecting: an inspection of the images runs in the background. The next one begins at
	// nextDetection or later.
	mu            sync.Mutex
	detecting     bool
	nextDetection time.Time
	// failed: the last periodic GC of images failed.
	failed bool
}

// open opens the sources of the machine. It makes no calls yet: the runtime may start later
// than the plugin.
func (n *node) open() error {
	root := nodefs.FS{Root: n.facts.RootDir}
	client, err := cri.Dial(root, n.facts.RuntimeEndpoint, n.facts.ImageEndpoint)
	if err != nil {
		return err
	}
	n.client = client
	n.filesystems = filesystem.New(n.facts, client.Images)
	n.meter = podusage.New(podusage.Options{
		Node: n.facts, Runtime: client.Runtime, Contents: n.filesystems.Contents, Walk: n.config.Walk,
	})
	n.collector = gc.New(gc.Options{
		Client: client, Root: root, PodLogsDir: n.facts.PodLogsDir, KubeletRootDir: n.facts.KubeletRootDir, Settings: n.config.Settings,
	})
	return nil
}

func (n *node) close() {
	n.meter.Close()
	n.filesystems.Close()
	_ = n.client.Close() // no call waits for an answer
}

// detect inspects the images in the background if it is time, and then runs the periodic GC.
func detect(ctx context.Context, h *sdk.Held[*node]) {
	n := h.Value
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.detecting || time.Now().Before(n.nextDetection) {
		return
	}
	n.detecting = true
	h.Hold()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() { // it ends by its deadlines, and holds the node until then
		defer h.Release()
		defer cancel()
		pause, err := hang.Try(func() (time.Duration, error) { return n.tend(ctx), nil })
		if err != nil {
			pause = detectAgain
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.detecting, n.nextDetection = false, time.Now().Add(pause)
	}()
	go func() { // it ends with the goroutine above
		select {
		case <-h.Replaced():
			cancel()
		case <-ctx.Done():
		}
	}()
}

// tend inspects the images, runs the periodic GC and returns the pause until the next time.
func (n *node) tend(ctx context.Context) time.Duration {
	looking, cancel := context.WithTimeout(ctx, detectFor)
	defer cancel()
	if err := n.collector.Detect(looking); err != nil {
		slog.Warn("images were not looked at", "error", err)
		return detectAgain
	}
	collecting, cancel := context.WithTimeout(ctx, collectFor)
	defer cancel()
	n.meter.Removing()
	released, err := n.collector.Periodic(collecting)
	if ctx.Err() == nil { // else the next node continues
		n.tell(released, err)
	}
	return detectEvery
}

// tell logs the result of the periodic GC of images, with the kubelet's events.
func (n *node) tell(released eviction.Reclaimed, err error) {
	if released.Message != "" {
		slog.Info("periodic image garbage collection", "bytesFreed", released.Bytes, "message", released.Message)
	}
	event := func(reason string, err error) {
		slog.Warn("event", "kind", "Node", "name", n.facts.NodeName, "type", "Warning", "reason", reason, "message", err.Error())
	}
	short, isShort := errors.AsType[*gc.ShortError](err)
	switch {
	case isShort:
		event("FreeDiskSpaceFailed", short)
	case errors.Is(err, gc.ErrNoCapacity):
		event("InvalidDiskCapacity", gc.ErrNoCapacity)
	}
	switch { // like the kubelet, which expects the first one after the start to fail
	case err == nil:
	case n.failed:
		event("ImageGCFailed", err)
	default:
		slog.Warn("image garbage collection failed once", "error", err)
	}
	n.failed = err != nil
}
