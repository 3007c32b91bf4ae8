package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/evictd/evictd/host/internal/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// maxSummaryTimeout is the deadline of an observation: a fetch that may last as
// long would make it late without saying why.
const maxSummaryTimeout = time.Second

var nodeLayouts = []string{"", LayoutShared, LayoutImageFs, LayoutContainerFs}

// Options are s as host/internal/summary takes them.
func (s *Summary) Options() summary.Options {
	return summary.Options{
		Address:            s.Address,
		TokenFile:          s.TokenFile,
		CertFile:           s.CertFile,
		KeyFile:            s.KeyFile,
		CAFile:             s.CAFile,
		ServerName:         s.ServerName,
		InsecureSkipVerify: s.InsecureSkipVerify,
		Timeout:            s.Timeout.Duration,
	}
}

// summaryProblems looks at a summary that nobody uses, too: source may be what is
// forgotten. Without an address there is nothing to hold the rest against, and an
// embedding program needs none.
func (c *Config) summaryProblems() []error {
	var errs []error
	wrong := func(field, value string) {
		errs = append(errs, fmt.Errorf("summary.%s: %s: want %s", field, shown(strconv.Quote(value)), summaryForms[field]))
	}
	if d := c.Summary.Timeout.Duration; d <= 0 || d >= maxSummaryTimeout {
		wrong("timeout", d.String())
	}
	if !slices.Contains(nodeLayouts, c.Summary.Layout) {
		wrong("layout", c.Summary.Layout)
	}
	if c.Summary.Address == "" {
		return errs
	}
	o := c.Summary.Options()
	o.Timeout = 0 // was reported
	// Open begins nothing, so that there is nothing to close.
	_, err := summary.Open(o)
	for _, err := range split(err) {
		errs = append(errs, fmt.Errorf("summary.%w", err))
	}
	return errs
}

// CheckDaemon reports what a program needs that has no pods, summary or knowledge
// of filesystems of its own: what Validate lets pass for the sake of others.
func (c *Config) CheckDaemon() error { return errors.Join(c.daemonProblems()...) }

func (c *Config) daemonProblems() []error {
	if c.Source != SourceSummary {
		return nil
	}
	var errs []error
	if c.Summary.Address == "" {
		errs = append(errs, fmt.Errorf("summary.address: not given, want %s, as source is %q", summaryForms["address"], c.Source))
	}
	if disk := c.diskSignal(); disk != "" && c.Summary.Layout == "" {
		errs = append(errs, fmt.Errorf("summary.layout: not given, want %s, as there is a threshold of %s and a summary does not tell", summaryForms["layout"], disk))
	}
	return errs
}

// diskSignal returns a signal with a threshold that depends on the layout, "" if
// there is none.
func (c *Config) diskSignal() eviction.Signal {
	thresholds, err := c.Thresholds()
	if err != nil {
		return "" // was reported
	}
	for _, t := range thresholds {
		switch t.Signal {
		case eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.ImageFsAvailable, eviction.ImageFsInodesFree,
			eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree:
			return t.Signal
		default:
		}
	}
	return ""
}
