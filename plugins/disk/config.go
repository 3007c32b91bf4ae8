package disk

import (
	"errors"
	"fmt"

	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/plugins/disk/internal/podusage"
	"github.com/evictd/evictd/shared/eviction"
)

// config is the plugin's own configuration.
type config struct {
	// The settings of garbage collection have the kubelet's names.
	gc.Settings
	// Walk limits the cost of walking the pods' directories.
	Walk podusage.Walk `json:"walk"`
}

// validate returns all errors, each with its field.
func validate(c *config, facts eviction.NodeFacts) error {
	var periodic error
	if c.PeriodicImageGC && facts.SummarySocket != "" {
		periodic = errors.New("config: periodicImageGC is true, want false with source: summary, where nothing can be freed")
	}
	return errors.Join(under("config: ", c.Settings.Validate()), under("config: walk.", c.Walk.Validate()), periodic)
}

// under adds a prefix to each of joined errors.
func under(prefix string, err error) error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s%w", prefix, err)
	}
	var errs []error
	for _, err := range joined.Unwrap() {
		errs = append(errs, fmt.Errorf("%s%w", prefix, err))
	}
	return errors.Join(errs...)
}
