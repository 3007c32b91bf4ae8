package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// Bounds of the configured poll interval.
const (
	defaultPollInterval = 100 * time.Millisecond
	minPollInterval     = 10 * time.Millisecond
	maxPollInterval     = 10 * time.Second
)

var errNotConfigured = errors.New("not configured yet: Configure comes first")

// New returns the memory plugin.
func New() sdk.Plugin {
	p := newPlugin()
	return sdk.Plugin{
		Name:       "memory",
		Version:    "1",
		Signals:    sdk.Signals(eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable),
		Configurer: sdk.Configure(p.configure),
		Observer:   p,
		Measurer:   p,
		Watcher:    p,
		Ranker:     sdk.RankAsKubelet(),
	}
}

// plugin is what the capabilities share. Each call takes the node as configured
// when it begins and stays with it.
type plugin struct {
	current atomic.Pointer[node]
	buffers sync.Pool
}

func newPlugin() *plugin {
	return &plugin{buffers: sync.Pool{New: func() any { return new(nodefs.Buffer) }}}
}

// config is the plugin's own configuration.
type config struct {
	// PollInterval is how long the watcher waits at most between two looks where
	// the kernel does not call, as a Go duration. 100ms by default.
	PollInterval string `json:"pollInterval"`
}

// node is the machine as one configuration describes it. Its descriptors are
// closed by the garbage collector once it is replaced and no call uses it.
type node struct {
	// summary has all figures if it is not nil. The machine is watched all the same,
	// if it can be: no summary calls when memory runs out.
	summary *summary.Source
	watched bool

	hierarchy    nodefs.Hierarchy
	naming       *nodefs.Naming
	total        *nodefs.MemoryGauge
	allocatable  *nodefs.MemoryGauge
	pods         *nodefs.PodCgroups[nodefs.MemoryUse]
	pollInterval time.Duration
	// replaced is closed when another configuration takes over.
	replaced chan struct{}
}

func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	interval, intervalErr := c.pollInterval()
	fs := nodefs.FS{Root: facts.RootDir}
	naming, namingErr := fs.Naming(facts.CgroupRoot, facts.CgroupDriver)
	hierarchy, hierarchyErr := fs.MemoryHierarchy()
	err := errors.Join(namingErr, hierarchyErr)
	if facts.SummarySocket != "" && err != nil && intervalErr == nil {
		slog.Warn("memory is not watched, the host looks at the summary on its interval only", "error", err)
		p.turnTo(&node{summary: &summary.Source{Socket: facts.SummarySocket}, replaced: make(chan struct{})})
		return nil
	}
	if err := errors.Join(intervalErr, err); err != nil {
		return err
	}
	next := &node{
		watched:      true,
		hierarchy:    hierarchy,
		naming:       naming,
		total:        hierarchy.NodeMemory(),
		allocatable:  hierarchy.AllPodsMemory(naming),
		pods:         hierarchy.PodMemory(naming),
		pollInterval: interval,
		replaced:     make(chan struct{}),
	}
	if facts.SummarySocket != "" {
		next.summary = &summary.Source{Socket: facts.SummarySocket}
	}
	p.turnTo(next)
	return nil
}

func (p *plugin) turnTo(next *node) {
	old := p.current.Swap(next)
	if old == nil {
		return
	}
	close(old.replaced)
	if old.summary != nil {
		old.summary.Close()
	}
}

func (c config) pollInterval() (time.Duration, error) {
	if c.PollInterval == "" {
		return defaultPollInterval, nil
	}
	d, err := time.ParseDuration(c.PollInterval)
	if err != nil {
		return 0, fmt.Errorf("config: pollInterval: %w", err)
	}
	if d < minPollInterval || d > maxPollInterval {
		return 0, fmt.Errorf("config: pollInterval: %v, want %v to %v", d, minPollInterval, maxPollInterval)
	}
	return d, nil
}

func (p *plugin) configured() (*node, error) {
	n := p.current.Load()
	if n == nil {
		return nil, errNotConfigured
	}
	return n, nil
}

// gauge returns what measures a signal; nil for one that is not of this plugin.
func (n *node) gauge(s eviction.Signal) *nodefs.MemoryGauge {
	switch s {
	case eviction.MemoryAvailable:
		return n.total
	case eviction.AllocatableMemoryAvailable:
		return n.allocatable
	default:
		return nil
	}
}

// cgroupDir is the directory of the cgroup that gauge reads for a signal. The
// error wraps nodefs.ErrGone while nobody can tell where that is.
func (n *node) cgroupDir(s eviction.Signal) (string, error) {
	if s == eviction.MemoryAvailable {
		return n.hierarchy.Path("/"), nil
	}
	names, err := n.naming.Names()
	if err != nil {
		return "", err
	}
	return n.hierarchy.Path(names.Kubepods()), nil
}

func (p *plugin) buffer() (b *nodefs.Buffer, release func()) {
	b, _ = p.buffers.Get().(*nodefs.Buffer)
	return b, func() { p.buffers.Put(b) }
}
