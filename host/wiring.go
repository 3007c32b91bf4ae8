package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/observe"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// nodeFacts is what plugins are told of the node.
func nodeFacts(c *Config, cgroupDriver, summarySocket string) eviction.NodeFacts {
	return eviction.NodeFacts{
		NodeName:        c.NodeName,
		RootDir:         c.RootDir,
		CgroupRoot:      c.CgroupRoot,
		CgroupDriver:    cgroupDriver,
		KubeletRootDir:  c.KubeletRootDir,
		PodLogsDir:      c.PodLogsDir,
		RuntimeEndpoint: c.RuntimeEndpoint,
		ImageEndpoint:   c.ImageEndpoint,
		SummarySocket:   summarySocket,
		DryRun:          c.DryRun,
	}
}

func pluginSettings(c *Config) map[string]supervisor.Settings {
	all := make(map[string]supervisor.Settings, len(c.Plugins)+1)
	if c.RequirePins {
		all[""] = supervisor.Settings{RequirePin: true}
	}
	for name, p := range c.Plugins {
		all[name] = supervisor.Settings{
			Config: p.Config, AutoMTLS: p.AutoMTLS, Disabled: p.Disabled, Shadow: p.Shadow, SHA256: ptr.Deref(p.SHA256, ""), RequirePin: c.RequirePins, Confine: confine(p),
		}
	}
	return all
}

// confine puts what is configured into a policy.
func confine(c config.Plugin) func(*sandbox.Policy) {
	return func(p *sandbox.Policy) {
		p.User, p.Group = ptr.Deref(c.User, ""), ptr.Deref(c.Group, "")
		if c.Capabilities != nil {
			p.Capabilities, _ = sandbox.ParseCapabilities(c.Capabilities) // names that are none were reported
			p.Asked = true
		}
		if c.MemoryLimit != nil {
			p.MemoryBytes = c.MemoryLimit.Value()
		}
		if c.CPULimit != nil {
			p.MilliCPU = c.CPULimit.MilliValue()
		}
	}
}

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
		PodLevelResources:        c.Feature(config.FeaturePodLevelResources),
		ID:                       configID(c),
	}
}

// configID is the same for the same configuration, and tells nothing else of it.
func configID(c *Config) string {
	text, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// rules say what pods request.
func rules(c *Config) pods.Rules {
	return pods.Rules{PodLevelResources: c.Feature(config.FeaturePodLevelResources)}
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

// openPlugins prepares the plugins of the configuration's directory, and those of the
// embedding program that run in this process.
func openPlugins(o supervisor.Options, e *embedding) (*supervisor.Supervisor, error) {
	if e == nil {
		return supervisor.New(o)
	}
	o.Timeouts = client.Timeouts{}.AtLeast(e.Patience)
	// Nobody switches off a signal of another program by removing a file.
	o.ExpectBuiltins = e.Patience == 0
	if len(e.Plugins) > 0 {
		return supervisor.InProcess(e.Plugins, o)
	}
	return supervisor.New(o)
}
