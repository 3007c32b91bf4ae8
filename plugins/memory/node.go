package memory

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/plugins/internal/memcg"
	"github.com/evictd/evictd/shared/eviction"
)

// Bounds of the configured poll interval.
const (
	defaultPollInterval = 100 * time.Millisecond
	minPollInterval     = 10 * time.Millisecond
	maxPollInterval     = 10 * time.Second
)

// config is the plugin's own configuration.
type config struct {
	// PollInterval is the maximum time between two looks of the watcher while the kernel does not
	// notify, as a Go duration. By default it is 100ms, and up to 1s far from all thresholds.
	PollInterval string `json:"pollInterval"`
}

// node holds the sources of one configuration, with what a watcher needs.
type node struct {
	*memcg.Node

	pollInterval time.Duration
	farRate      int64 // of watchers
	// silent belongs to the plugin.
	silent map[eviction.Signal]*atomic.Bool
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
