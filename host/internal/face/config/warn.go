package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
)

// Warnings returns settings that are valid, as in the kubelet, but probably unintended.
func (c *Config) Warnings() []string {
	warnings := slices.Clone(c.UnknownKeys)
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }

	thresholdWarnings(c, warn)
	if !c.CgroupsPerQOS && c.Source == SourceNative {
		warn("cgroupsPerQOS is false: %s; want true", WithoutPodCgroups)
	}
	warnings = append(warnings, featureWarnings(c)...)
	for _, s := range slices.Sorted(maps.Keys(c.Assign)) {
		for _, word := range slices.Sorted(maps.Keys(c.Assign[s])) {
			if plugin := c.Assign[s][word]; c.Plugins[plugin].Disabled {
				warn("assign[%q].%s has no effect: plugins[%q] is disabled", s, word, plugin)
			}
		}
	}
	if c.Summary.Kubeconfig != "" && !c.UsesSummary() {
		warn("summary.kubeconfig has no effect: source is %q, and no signal is assigned to %q", c.Source, SourceSummary)
	}
	var disk struct{ PeriodicImageGC bool }
	_ = json.Unmarshal(c.Plugins["disk"].Config, &disk) // the plugin reports what is wrong with it
	if to := c.Assigned(eviction.NodeFsAvailable, eviction.CanObserve); disk.PeriodicImageGC && to != "" && to != "disk" {
		warn(`plugins["disk"].config.periodicImageGC has no effect: plugin %q observes nodefs`, to)
	}
	return warnings
}

// WithoutPodCgroups explains why a kubelet must create cgroups for pods.
const WithoutPodCgroups = "pods have no cgroups of their own, so what they use of memory and processes is not known, they are evicted by priority alone, and processes that outlive their grace are left to the container runtime"

// thresholdWarnings warns of settings that have no effect on evictions, or a harsh one.
func thresholdWarnings(c *Config, warn func(format string, args ...any)) {
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
	thresholds, err := c.Thresholds()
	switch {
	case err != nil:
	case len(thresholds) == 0:
		warn("no eviction threshold is in force: nothing is ever evicted")
	case !slices.ContainsFunc(thresholds, func(t policy.Threshold) bool { return t.Signal == eviction.MemoryAvailable }):
		warn("no threshold of memory.available is in force: no pod is evicted when memory runs short; want evictionHard[\"memory.available\"], by default 100Mi")
	}
	hard := map[eviction.Signal]policy.Value{}
	for _, t := range thresholds {
		if t.Hard() {
			hard[t.Signal] = t.Value
		}
	}
	for _, soft := range thresholds {
		first, both := hard[soft.Signal]
		if order, known := soft.Value.Compare(first); both && !soft.Hard() && known && order <= 0 {
			warn("evictionSoft[%q] has no effect: %s is not above %s of evictionHard, which acts first", soft.Signal, soft.Value, first)
		}
	}
	if c.EvictionMaxPodGracePeriod < 0 {
		warn("evictionMaxPodGracePeriod is %d: under soft thresholds a pod has its own grace period, however long", c.EvictionMaxPodGracePeriod)
	}
	if c.EvictionMaxPodGracePeriod == 0 && len(c.EvictionSoft) > 0 {
		warn("evictionMaxPodGracePeriod is 0: pods under soft thresholds are killed within 1 s, as the kubelet does; want the longest grace period that they may have, in seconds")
	}
}

// The kubelet's feature gates that affect evictd.
const (
	// FeaturePodLevelResources makes pod-level resource requests count.
	FeaturePodLevelResources = "PodLevelResources"
	// FeatureSeparateDiskGC distinguishes the filesystem of containers from that of images.
	FeatureSeparateDiskGC = "KubeletSeparateDiskGC"
	// FeatureFixQOSClass ignores empty pod-level resources when determining the QoS class.
	FeatureFixQOSClass = "PodLevelResourcesFixKubeletQOSClass"
	// FeatureHugePages excludes huge pages from the available memory.
	FeatureHugePages = "HugepageAwareEviction"
	// FeatureMemoryVolumes limits emptyDirs in memory by the size of their tmpfs only.
	FeatureMemoryVolumes = "InPlacePodVerticalScalingMemoryBackedVolumes"

	allAlpha = "AllAlpha"
	// allBeta sets all beta features that are not set themselves.
	allBeta = "AllBeta"
)

// newFeatures lists the gates by the Kubernetes version that introduced them. Alpha ones are off by
// default.
var newFeatures = map[string]struct {
	since string
	alpha bool
}{
	FeatureFixQOSClass:   {since: Kubernetes137},
	FeatureHugePages:     {since: Kubernetes137},
	FeatureMemoryVolumes: {since: Kubernetes137, alpha: true},
}

// features lists the kubelet's gates that concern evictions. Those without a constant do not affect
// evictd: they are locked, or off and without consequence (a toleration cannot compare the empty
// value of a pressure taint), or about things that evictd does not have.
var features = []string{
	FeaturePodLevelResources,
	FeatureSeparateDiskGC,
	FeatureFixQOSClass,
	FeatureHugePages,
	FeatureMemoryVolumes,
	allAlpha,
	allBeta,
	"InPlacePodLevelResourcesVerticalScaling",
	"InPlacePodVerticalScaling",
	"LocalStorageCapacityIsolationFSQuotaMonitoring",
	"PodObservedGenerationTracking",
	"RuntimeClassInImageCriApi",
	"TaintTolerationComparisonOperators",
}

// featureWarnings returns gates that do not have the expected effect.
func featureWarnings(c *Config) []string {
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		switch since := newFeatures[name].since; {
		case !c.Since(since):
			warnings = append(warnings, fmt.Sprintf("featureGates[%q] has no effect: it came with Kubernetes %s, compatibility is %s", name, since, c.Kubernetes()))
		case !slices.Contains(features, name):
			warnings = append(warnings, fmt.Sprintf("featureGates[%q] has no effect: no gate of this name changes what is evicted", printable.Shown(name)))
		}
	}
	if !c.Feature(FeatureSeparateDiskGC) {
		warnings = append(warnings, fmt.Sprintf("featureGates[%q] is off and has no effect: the filesystems of images and containers are always told apart", FeatureSeparateDiskGC))
	}
	return warnings
}
