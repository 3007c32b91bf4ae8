package disk

import (
	"context"
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
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// detectEvery is how often the images are looked at, as in the kubelet: what is
	// freed first is what was not used for the longest time.
	detectEvery = 5 * time.Minute
	// detectFor is how long a look may take, detectAgain the pause after one that
	// failed.
	detectFor   = 30 * time.Second
	detectAgain = 10 * time.Second
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
		Node: n.facts, Runtime: client.Runtime, Layout: n.filesystems.Layout, Walk: n.config.Walk,
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
	_ = n.client.Close() // nobody waits for an answer
}

// detect has the images looked at beside the calls when it is time.
func detect(ctx context.Context, h *sdk.Held[*node]) {
	n := h.Value
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.detecting || time.Now().Before(n.nextDetection) {
		return
	}
	n.detecting = true
	h.Hold()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detectFor)
	go func() { // it ends by its deadline, and holds the node so long
		defer h.Release()
		defer cancel()
		pause := detectEvery
		if err := n.collector.Detect(ctx); err != nil {
			slog.Warn("images were not looked at", "error", err)
			pause = detectAgain
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.detecting, n.nextDetection = false, time.Now().Add(pause)
	}()
}
