package host

import (
	"slices"

	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
)

func settings(c *Config, thresholds []policy.Threshold) loop.Settings {
	return loop.Settings{
		Config:                   observe.Config{Thresholds: thresholds, Assigned: c.Assigned, LayoutOnce: c.Layout == config.LayoutKubelet},
		TransitionPeriod:         c.EvictionPressureTransitionPeriod.Duration,
		MaxPodGracePeriodSeconds: c.EvictionMaxPodGracePeriod,
		MonitoringInterval:       c.MonitoringInterval.Duration,
		MemoryNotifications:      c.KernelMemcgNotification,
		DryRun:                   c.DryRun,
		Pacing:                   loop.Pacing(c.Pacing),
		RankVeto:                 loop.RankVeto(c.RankVeto),
		LocalStorageLimits:       c.LocalStorageCapacityIsolation,
		LocalRules:               policy.LocalRules{Sidecars: c.Since(config.Kubernetes137), MemoryVolumes: c.Feature(config.FeatureMemoryVolumes)},
		PodLevelResources:        c.Feature(config.FeaturePodLevelResources),
		ID:                       c.ID(),
	}
}

// wantedBy returns the labels and annotations that the plugins of s want to see of pods.
func wantedBy(s *supervisor.Supervisor) (keys []string) {
	pin := s.Pin()
	defer pin.Release()
	for _, i := range pin.Instances() {
		keys = slices.Concat(keys, i.Plugin.WantLabels, i.Plugin.WantAnnotations)
	}
	return keys
}

// openPlugins prepares the plugins in the configured directory and those that the embedding program
// runs in this process.
func openPlugins(o supervisor.Options, e *embedding) (*supervisor.Supervisor, error) {
	if e == nil {
		return supervisor.New(o)
	}
	o.Timeouts = client.Timeouts{}.AtLeast(e.MinDeadline)
	// A signal of another program is not switched off by removing a file.
	o.ExpectBuiltins = e.MinDeadline == 0
	if len(e.Plugins) > 0 {
		return supervisor.InProcess(e.Plugins, o)
	}
	return supervisor.New(o)
}
