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
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// detectEvery is the time between two looks at the images, as in the kubelet: the image
	// that was not used for the longest time is removed first.
	detectEvery = 5 * time.Minute
	// detectFor bounds a look, detectAgain is the pause after one that failed.
	detectFor   = 30 * time.Second
	detectAgain = 10 * time.Second
	// collectFor bounds the removal of images, as when the host asks for it.
	collectFor = 10 * time.Minute
)

// node is the machine as one configuration describes it.
type node struct {
	facts  eviction.NodeFacts
	config config
	// summary stands in for all of the machine if it is not nil.
	summary *summary.Source

	client      *cri.Client
	filesystems *filesystem.Filesystems
	meter       *podusage.Meter
	collector   *gc.Collector

	// detecting: the images are being looked at beside the calls. The next look is
	// not before nextDetection.
	mu            sync.Mutex
	detecting     bool
	nextDetection time.Time
	// failed: the last periodic GC of images did.
	failed bool
}

// open finds what is on the machine. Nothing is asked yet: the runtime may come
// later than the plugin.
func (n *node) open() error {
	client, err := cri.Dial(n.facts.RuntimeEndpoint, n.facts.ImageEndpoint)
	if err != nil {
		return err
	}
	n.client = client
	n.filesystems = filesystem.New(n.facts, client.Images)
	n.meter = podusage.New(podusage.Options{
		Node: n.facts, Runtime: client.Runtime, Contents: n.filesystems.Contents, Walk: n.config.Walk,
	})
	n.collector = gc.New(gc.Options{
		Client: client, Root: nodefs.FS{Root: n.facts.RootDir}, PodLogsDir: n.facts.PodLogsDir, Settings: n.config.Settings,
	})
	return nil
}

func (n *node) close() {
	if n.summary != nil {
		n.summary.Close()
		return
	}
	n.meter.Close()
	n.filesystems.Close()
	_ = n.client.Close() // no call waits for an answer
}

// detect has the images looked at beside the calls when it is time, and those removed
// that are to go without being asked for.
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
	go func() { // it ends by its deadlines, and holds the node so long
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
	go func() { // it ends with the other
		select {
		case <-h.Replaced():
			cancel()
		case <-ctx.Done():
		}
	}()
}

// tend looks at the images, removes what is to go, and returns when to do so again.
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
	if ctx.Err() == nil { // else the next node goes on with it
		n.tell(released, err)
	}
	return detectEvery
}

// tell logs what the periodic GC of images has done, with the kubelet's events.
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
	switch { // as the kubelet, which expects the first to fail when all has just been started
	case err == nil:
	case n.failed:
		event("ImageGCFailed", err)
	default:
		slog.Warn("image garbage collection failed once", "error", err)
	}
	n.failed = err != nil
}
