package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// minInterval keeps a slip of the unit from making the host busy for ever.
	minInterval = 10 * time.Millisecond
	// maxSocketPath is sun_path of unix(7) without its final NUL.
	maxSocketPath = 107
	maxFileName   = 255
)

// Validate reports all that is wrong with c, each line with the field, its value
// and what would be right.
func (c *Config) Validate() error { return errors.Join(c.problems()...) }

func (c *Config) problems() []error {
	var errs []error
	check := func(ok bool, field, value string) {
		if !ok {
			errs = append(errs, wrong(field, value))
		}
	}
	check(!strings.ContainsFunc(c.NodeName, control), "nodeName", c.NodeName)
	check(c.Mode == ModeCRI, "mode", c.Mode)
	for _, p := range c.paths() {
		check(filepath.IsAbs(*p.value) && !strings.ContainsFunc(*p.value, control), p.name, *p.value)
	}
	check(validEndpoint(c.RuntimeEndpoint), "runtimeEndpoint", c.RuntimeEndpoint)
	// Without one of its own it repeats the other, which was reported.
	check(c.ImageEndpoint == c.RuntimeEndpoint || validEndpoint(c.ImageEndpoint), "imageEndpoint", c.ImageEndpoint)
	check(slices.Contains([]string{"", DriverCgroupfs, DriverSystemd}, c.CgroupDriver), "cgroupDriver", c.CgroupDriver)
	check(validListen(c.ListenAddress), "listenAddress", c.ListenAddress)
	_, known := levels[c.LogLevel]
	check(known, "logLevel", c.LogLevel)
	check(c.Pacing == PacingEvictd || c.Pacing == PacingKubelet, "pacing", c.Pacing)
	check(c.MonitoringInterval.Duration >= minInterval, "monitoringInterval", c.MonitoringInterval.Duration.String())
	check(slices.Contains([]string{VetoSoft, VetoAlways, VetoNever}, c.RankVeto), "rankVeto", c.RankVeto)
	check(c.EvictionPressureTransitionPeriod.Duration >= 0, "evictionPressureTransitionPeriod", c.EvictionPressureTransitionPeriod.Duration.String())

	check(c.Layout == LayoutKubelet || c.Layout == LayoutRecheck, "layout", c.Layout)
	check(c.Source == SourceNative || c.Source == SourceSummary, "source", c.Source)

	errs = append(errs, c.signalProblems()...)
	_, err := c.Thresholds()
	errs = append(errs, split(err)...)
	errs = append(errs, c.allocatableProblems()...)
	errs = append(errs, c.summaryProblems()...)
	errs = append(errs, c.assignProblems()...)
	errs = append(errs, split(policy.Split(c.Assigned, c.PossibleLayouts()...))...)
	return append(errs, c.pluginProblems()...)
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

func validEndpoint(endpoint string) bool {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	return ok && filepath.IsAbs(path) && path != "/" && len(path) <= maxSocketPath && !strings.ContainsFunc(path, control)
}

// validListen takes addresses but no names: to look one up at start could fail
// or give another address than meant.
func validListen(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	if host == "" || host == "localhost" {
		return true
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}

func (c *Config) signalProblems() []error {
	var errs []error
	for i, name := range c.RequiredSignals {
		s := eviction.Signal(name)
		if _, builtin := eviction.Builtin(s); !builtin && s.ValidOwn() != nil {
			errs = append(errs, fmt.Errorf(`requiredSignals[%d]: %s: want one of the kubelet's signals such as "memory.available", or a domain-qualified one such as "acme.example/nvme.spare"`,
				i, shown(strconv.Quote(name))))
		}
	}
	return errs
}

// The kubelet knows these (pkg/kubelet/types/constants.go); only pods means
// something here.
var allocatables = []string{"pods", "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible", "none"}

func (c *Config) allocatableProblems() []error {
	var errs []error
	for i, name := range c.EnforceNodeAllocatable {
		if !slices.Contains(allocatables, name) || name == "none" && len(c.EnforceNodeAllocatable) > 1 {
			errs = append(errs, fmt.Errorf("enforceNodeAllocatable[%d]: %s: want %s", i, shown(strconv.Quote(name)), forms["enforceNodeAllocatable"]))
		}
	}
	return errs
}
