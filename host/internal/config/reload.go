package config

import (
	"fmt"
	"maps"
	"strings"
)

// Changed returns the fields in which b differs from a and that cannot change
// while evictd runs. All others can.
func Changed(a, b Config) []string {
	var changed []string
	for i, f := range a.fixed() {
		if *f.value != *b.fixed()[i].value {
			changed = append(changed, f.name)
		}
	}
	if a.Summary != b.Summary {
		changed = append(changed, "summary")
	}
	if !maps.Equal(a.FeatureGates, b.FeatureGates) {
		changed = append(changed, "featureGates")
	}
	return changed
}

// CheckReload reports why b cannot take the place of a while evictd runs. Then
// nothing of b is to be applied.
func CheckReload(a, b Config) error {
	changed := Changed(a, b)
	if len(changed) == 0 {
		return nil
	}
	return fmt.Errorf("%s changed, which needs a restart; nothing was applied", strings.Join(changed, ", "))
}

// fixed lists the texts among the fields that evictd takes in once: other parts hold what they
// name open, locked or listened on.
func (c *Config) fixed() []textField {
	return []textField{
		{"nodeName", &c.NodeName},
		{"mode", &c.Mode},
		{"pluginDir", &c.PluginDir},
		{"runDir", &c.RunDir},
		{"podManifestDir", &c.PodManifestDir},
		{"runtimeEndpoint", &c.RuntimeEndpoint},
		{"imageEndpoint", &c.ImageEndpoint},
		{"rootDir", &c.RootDir},
		{"cgroupRoot", &c.CgroupRoot},
		{"cgroupDriver", &c.CgroupDriver},
		{"kubeletRootDir", &c.KubeletRootDir},
		{"podLogsDir", &c.PodLogsDir},
		{"listenAddress", &c.ListenAddress},
		{"layout", &c.Layout},
		{"source", &c.Source},
	}
}
