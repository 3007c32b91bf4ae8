package memory

import (
	"fmt"
	"time"

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

// config is the plugin's own configuration.
type config struct {
	// PollInterval bounds the time between two looks of the watcher where the kernel does not
	// call, as a Go duration. 100ms by default.
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
// error wraps nodefs.ErrGone while that is not known.
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
