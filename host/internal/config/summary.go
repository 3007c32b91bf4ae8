package config

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/evictd/evictd/host/internal/summary"
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
