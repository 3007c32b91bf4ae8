package gc

import (
	"context"
	"time"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/shared/eviction"
)

// Options are what a Collector works on.
type Options struct {
	Client *cri.Client
	// PodLogsDir holds the pods' log directories, usually /var/log/pods.
	PodLogsDir string
	Settings   Settings
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Collector runs container GC and image GC, one of them at a time. It is safe for
// concurrent use. It remembers when images were first seen and last used, so keep
// one for as long as the runtime is the same.
type Collector struct {
	options Options
}

// New returns a Collector with settings that are valid.
func New(o Options) *Collector {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Collector{options: o}
}

// Apply puts other settings, which must be valid, in force for the next GC. What
// is known of images is kept.
func (c *Collector) Apply(s Settings) {}

// Run looks at the images at once and then every five minutes, as the kubelet
// does, until ctx ends. failed is told of each look that failed.
func (c *Collector) Run(ctx context.Context, failed func(error)) {}

// Detect looks at the images once and notes which are new and which are used.
func (c *Collector) Detect(ctx context.Context) error { return nil }

// Containers runs container GC for the pods that the host knows; with all sources
// ready a pod that is not among them does not exist. progress is called after each
// removal with what was freed so far. The result counts also with an error, which
// joins all that went wrong.
func (c *Collector) Containers(ctx context.Context, pods []eviction.PodPhase, allSourcesReady bool, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	return eviction.Reclaimed{}, nil
}

// Images removes all images that no container uses, that are not pinned, not the
// runtime's sandbox image, and not too new. progress is called after each removal
// with what was freed so far. The result counts also with an error.
func (c *Collector) Images(ctx context.Context, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	return eviction.Reclaimed{}, nil
}
