package disk

import (
	"context"
	"errors"
	"fmt"

	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/plugins/disk/internal/podusage"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// config is the plugin's own configuration.
type config struct {
	// The settings of garbage collection have the kubelet's names.
	gc.Settings
	// Walk bounds what it costs to look at the pods' directories.
	Walk podusage.Walk `json:"walk"`
}

// validate returns all that is wrong, each with its field.
func (c config) validate() error {
	return errors.Join(under("config: ", c.Settings.Validate()), under("config: walk.", c.Walk.Validate()))
}

// configure turns to another configuration. The node that it describes is kept as
// long as the host's facts of it are the same: what is known of its images, and
// for how long, must not be forgotten for a setting.
func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	if err := c.validate(); err != nil {
		return err
	}
	old := p.current.Load()
	var next *node
	switch {
	case facts.SummarySocket != "":
		next = newNode(facts, c)
		next.summary = &summary.Source{Socket: facts.SummarySocket}
	case old != nil && old.facts == facts && old.config.Walk == c.Walk:
		old.collector.Apply(c.Settings)
		return nil
	default:
		next = newNode(facts, c)
		if err := next.open(); err != nil {
			return err
		}
	}
	if old := p.current.Swap(next); old != nil {
		old.release()
	}
	return nil
}

// under gives each of joined errors a prefix.
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
