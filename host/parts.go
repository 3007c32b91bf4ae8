package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/host/internal/victim/cri"
	"github.com/evictd/evictd/shared/eviction"
)

// facts is what plugins are told of the node.
func (m *Manager) facts(c *Config) eviction.NodeFacts {
	return nodeFacts(c, m.cgroups.Driver(), m.figures.socket())
}

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
	}
}

func pluginSettings(c *Config) map[string]supervisor.Settings {
	all := make(map[string]supervisor.Settings, len(c.Plugins)+1)
	if c.RequirePins {
		all[""] = supervisor.Settings{Confinement: supervisor.Confinement{RequirePin: true}}
	}
	for name, p := range c.Plugins {
		all[name] = supervisor.Settings{
			Config: p.Config, AutoMTLS: p.AutoMTLS, Disabled: p.Disabled,
			Confinement: supervisor.Confinement{
				SHA256: text(p.SHA256), RequirePin: c.RequirePins, User: text(p.User), Group: text(p.Group),
				Capabilities: p.Allowed(), MemoryBytes: p.MemoryBytes(), MilliCPU: p.MilliCPU(),
			},
		}
	}
	return all
}

// text is "" for what was not given.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func assignment(c *Config) supervisor.Assignment {
	all := make(supervisor.Assignment, len(c.Assign))
	for s, plugins := range c.Assign {
		all[eviction.Signal(s)] = plugins
	}
	return all
}

func settings(c *Config, thresholds []policy.Threshold) loop.Settings {
	return loop.Settings{
		Thresholds:               thresholds,
		Assigned:                 c.Assigned,
		TransitionPeriod:         c.EvictionPressureTransitionPeriod.Duration,
		MaxPodGracePeriodSeconds: c.EvictionMaxPodGracePeriod,
		MonitoringInterval:       c.MonitoringInterval.Duration,
		MemoryNotifications:      c.KernelMemcgNotification,
		DryRun:                   c.DryRun,
		Pacing:                   loop.Pacing(c.Pacing),
		RankVeto:                 loop.RankVeto(c.RankVeto),
		LocalStorageLimits:       c.LocalStorageCapacityIsolation,
		LayoutOnce:               c.Layout == config.LayoutKubelet,
		PodLevelResources:        c.Feature(config.FeaturePodLevelResources),
	}
}

// rules say what pods request.
func rules(c *Config) pods.Rules {
	return pods.Rules{PodLevelResources: c.Feature(config.FeaturePodLevelResources)}
}

// criKiller kills pods through the container runtime.
type criKiller struct {
	cri *cri.Killer
	// podsDir has a directory for each pod, by uid.
	podsDir string
}

// Kill implements loop.Killer.
func (k criKiller) Kill(ctx context.Context, d loop.Kill) error {
	row := &d.Pod.Row
	return k.cri.Kill(ctx, cri.Target{
		UID: row.UID, Namespace: row.Namespace, Name: row.Name,
		SandboxIDs: d.Pod.SandboxIDs, ContainerIDs: d.Pod.ContainerIDs,
	}, d.GraceSeconds)
}

// Finished implements loop.Killer.
func (k criKiller) Finished(ctx context.Context, d loop.Kill) (bool, error) {
	return k.cri.Finished(ctx, d.Pod.Row.UID)
}

// CleanedUp implements loop.Killer: whoever made the pod's volumes has removed
// them. A look at a disk may hang, and is then left behind.
func (k criKiller) CleanedUp(ctx context.Context, d loop.Kill) (bool, error) {
	type answer struct {
		is  bool
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		is, err := noVolumes(filepath.Join(k.podsDir, d.Pod.Row.UID, "volumes"))
		answered <- answer{is, err}
	}()
	select {
	case a := <-answered:
		return a.is, a.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// noVolumes reports whether there is nothing in dir/PLUGIN/. The directories above
// may outlive the volumes.
func noVolumes(dir string) (bool, error) {
	plugins, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, p := range plugins {
		volumes, err := os.ReadDir(filepath.Join(dir, p.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if len(volumes) > 0 {
			return false, nil
		}
	}
	return true, nil
}
