package config

import (
	"fmt"
	"maps"
	"slices"
)

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
			warnings = append(warnings, fmt.Sprintf("featureGates[%q] has no effect: no gate of this name changes what is evicted", shown(name)))
		}
	}
	if !c.Feature(FeatureSeparateDiskGC) {
		warnings = append(warnings, fmt.Sprintf("featureGates[%q] is off and has no effect: the filesystems of images and containers are always told apart", FeatureSeparateDiskGC))
	}
	return warnings
}
