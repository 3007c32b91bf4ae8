package config

// The kubelet's feature gates that evictd looks at.
const (
	// FeaturePodLevelResources has requests of whole pods count.
	FeaturePodLevelResources = "PodLevelResources"
	// FeatureSeparateDiskGC tells the filesystem of containers from that of images.
	FeatureSeparateDiskGC = "KubeletSeparateDiskGC"

	// allBeta switches all beta features that are not named themselves.
	allBeta = "AllBeta"
)

// Feature reports whether one of the features above is on: as its gate says, else
// as AllBeta does, else yes, as both are beta and on in the kubelet.
func (c *Config) Feature(name string) bool {
	if on, ok := c.FeatureGates[name]; ok {
		return on
	}
	on, ok := c.FeatureGates[allBeta]
	return on || !ok
}
