package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/evictd/evictd/host/internal/input"
)

// Warnings returns what is legal, as it is in the kubelet, and yet hardly meant.
func (c *Config) Warnings() []string {
	var warnings []string
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }

	for _, s := range slices.Sorted(maps.Keys(c.EvictionSoftGracePeriod)) {
		if _, ok := c.EvictionSoft[s]; !ok {
			warn("evictionSoftGracePeriod[%q] has no effect: evictionSoft has no such signal", s)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(c.EvictionMinimumReclaim)) {
		_, hard := c.EvictionHard[s]
		_, soft := c.EvictionSoft[s]
		if !hard && !soft {
			warn("evictionMinimumReclaim[%q] has no effect: neither evictionHard nor evictionSoft has such a signal", s)
		}
	}
	if thresholds, err := c.Thresholds(); err == nil && len(thresholds) == 0 {
		warn("no eviction threshold is in force: nothing is ever evicted")
	}
	switch {
	case c.EvictionMaxPodGracePeriod < 0:
		warn("evictionMaxPodGracePeriod is %d: under soft thresholds a pod has its own grace period, however long", c.EvictionMaxPodGracePeriod)
	case c.EvictionMaxPodGracePeriod == 0 && len(c.EvictionSoft) > 0:
		warn("evictionMaxPodGracePeriod is 0: pods under soft thresholds are killed within 1 s, as the kubelet does; want the longest grace period that they may have, in seconds")
	}
	warnings = append(warnings, featureWarnings(c)...)
	warnings = append(warnings, assignWarnings(c)...)
	if c.Source == SourceNative && c.Summary.Address != "" {
		warn("summary.address has no effect: source is %q", c.Source)
	}
	if c.Summary.InsecureSkipVerify {
		warn("summary.insecureSkipVerify: whoever answers at summary.address decides what is evicted")
	}
	if !loopback(c.ListenAddress) {
		warn("listenAddress %q is not on the loopback device: whoever reaches it reads /status and /metrics without a login, the names of pods, why they were evicted, what plugins are confined to and the last lines of their logs; want 127.0.0.1, or a firewall before it", c.ListenAddress)
	}
	return warnings
}

// assignWarnings finds assignments to plugins that are disabled.
func assignWarnings(c *Config) (warnings []string) {
	for _, s := range slices.Sorted(maps.Keys(c.Assign)) {
		for _, word := range slices.Sorted(maps.Keys(c.Assign[s])) {
			if plugin := c.Assign[s][word]; c.Plugins[plugin].Disabled {
				warnings = append(warnings, fmt.Sprintf("assign[%q].%s has no effect: plugins[%q] is disabled", s, word, plugin))
			}
		}
	}
	return warnings
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// The kubelet's feature gates that evictd looks at.
const (
	// FeaturePodLevelResources has requests of whole pods count.
	FeaturePodLevelResources = "PodLevelResources"
	// FeatureSeparateDiskGC tells the filesystem of containers from that of images.
	FeatureSeparateDiskGC = "KubeletSeparateDiskGC"

	allAlpha = "AllAlpha"
	// allBeta switches all beta features that are not named themselves.
	allBeta = "AllBeta"
)

// features are the gates of the kubelet v1.36 that have to do with evictions. Those
// without a constant change nothing that evictd does: they are locked, or off and
// of no consequence (a toleration cannot compare the empty value of a pressure
// taint), or about things that evictd does not have.
var features = []string{
	FeaturePodLevelResources,
	FeatureSeparateDiskGC,
	allAlpha,
	allBeta,
	"InPlacePodLevelResourcesVerticalScaling",
	"InPlacePodVerticalScaling",
	"LocalStorageCapacityIsolationFSQuotaMonitoring",
	"PodObservedGenerationTracking",
	"RuntimeClassInImageCriApi",
	"TaintTolerationComparisonOperators",
}

// featureWarnings finds gates that do not do what their giver may think.
func featureWarnings(c *Config) []string {
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		if !slices.Contains(features, name) {
			warnings = append(warnings, fmt.Sprintf("featureGates[%q] has no effect: no gate of this name changes what is evicted", input.Shown(name)))
		}
	}
	if !c.Feature(FeatureSeparateDiskGC) {
		warnings = append(warnings, fmt.Sprintf("featureGates[%q] is off and has no effect: the filesystems of images and containers are always told apart", FeatureSeparateDiskGC))
	}
	return warnings
}
