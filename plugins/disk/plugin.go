// Package disk is the plugin for nodefs.*, imagefs.* and containerfs.*: it
// reports the layout of the node's filesystems, observes them, measures the usage
// of pods, ranks by the kubelet's rule and removes what is no longer used.
//
// Its figures come from the node's filesystems, the pods' directories and the
// container runtime.
//
// It can be served as it is (host/cmd/evictd) or be part of a vendor's plugin. The plugin is a
// value: each field can be replaced, cleared or wrapped, and the rest keeps working. WithStep and
// WithObserver cover what vendors would otherwise copy: they add a reclaim step, and make another
// plugin observe some of the signals. The examples show both, and how to combine a vendor's
// configuration with this one.
package disk

import (
	"context"
	"errors"
	"fmt"

	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/plugins/disk/internal/podusage"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// New returns the disk plugin.
func New(options ...Option) sdk.Plugin {
	p := &plugin{signals: signals()}
	for _, o := range options {
		o(p)
	}
	return sdk.Plugin{
		Name:       "disk",
		Version:    "1",
		Signals:    p.signals,
		OwnsLayout: true,
		Configurer: sdk.ConfigureChecked(validate, p.configure),
		Observer:   p,
		Measurer:   p,
		Watcher:    p,
		Ranker:     sdk.RankAsKubelet(),
		Reclaimer:  p,
	}
}

// plugin is shared by the capabilities. Each call uses the node as configured when the call
// begins until it ends.
type plugin struct {
	current sdk.Current[*node]

	// The changes that options have made.
	signals   []eviction.SignalSpec
	observers []observer
	steps     []Step
}

// configure applies another configuration. It keeps the node while the host's facts and the
// walk limits are the same: a change of settings must not lose what is known of the images,
// such as when each was last used.
func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	c.DryRun, facts.DryRun = facts.DryRun, false // a change of it does not change the node
	if old, err := p.current.Hold(); err == nil {
		defer old.Release()
		if n := old.Value; n.facts == facts && n.config.Walk == c.Walk {
			n.collector.Apply(c.Settings)
			return nil
		}
	}
	next := &node{facts: facts, config: c}
	if err := next.open(); err != nil {
		return err
	}
	p.current.Set(next, next.close)
	return nil
}

// Measure implements eviction.Measurer.
func (p *plugin) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	h, err := p.current.Hold()
	if err != nil {
		return err
	}
	defer h.Release()
	return h.Value.meter.Measure(ctx, req, emit)
}

// config is the plugin's own configuration.
type config struct {
	// The settings of garbage collection have the kubelet's names.
	gc.Settings
	// Walk limits the cost of walking the pods' directories.
	Walk podusage.Walk `json:"walk"`
}

// validate returns all errors, each with its field.
func validate(c *config, _ eviction.NodeFacts) error {
	return errors.Join(under("config: ", c.Settings.Validate()), under("config: walk.", c.Walk.Validate()))
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
