// Package parts builds from a configuration what the daemon and the node checks share, so that a
// check tests what the daemon uses.
package parts

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/evictd/evictd/host/internal/cluster/kubeapi"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/node/cgroups"
	"github.com/evictd/evictd/host/internal/node/criclient"
	podcri "github.com/evictd/evictd/host/internal/node/podsource/cri"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// NodeFacts returns the node facts that plugins receive with their configuration.
func NodeFacts(c *config.Config, cgroupDriver string) eviction.NodeFacts {
	return eviction.NodeFacts{
		NodeName:        c.NodeName,
		RootDir:         c.RootDir,
		CgroupRoot:      c.CgroupRoot,
		CgroupDriver:    cgroupDriver,
		KubeletRootDir:  c.KubeletRootDir,
		PodLogsDir:      c.PodLogsDir,
		RuntimeEndpoint: c.RuntimeEndpoint,
		ImageEndpoint:   c.ImageEndpoint,
		DryRun:          c.DryRun,

		ExcludeHugePages: c.Feature(config.FeatureHugePages),
		MemoryFigure:     c.Memory(),
	}
}

// PluginSettings returns the settings of plugins by name, with the defaults under "".
func PluginSettings(c *config.Config) map[string]supervisor.Settings {
	all := make(map[string]supervisor.Settings, len(c.Plugins)+1)
	if c.RequirePins {
		all[""] = supervisor.Settings{RequirePin: true}
	}
	for name, p := range c.Plugins {
		paths := slices.Clone(p.WritablePaths)
		for i, path := range paths {
			paths[i] = c.Node().Path(path)
		}
		all[name] = supervisor.Settings{
			Config: p.Config, Place: p.Place, WritablePaths: paths, AutoMTLS: p.AutoMTLS,
			Expected: p.Wanted(name, false), Disabled: p.Disabled,
			SHA256: ptr.Deref(p.SHA256, ""), RequirePin: c.RequirePins, Confine: confine(p),
		}
	}
	return all
}

// confine applies the configured confinement to a policy.
func confine(c config.Plugin) func(*sandbox.Policy) {
	return func(p *sandbox.Policy) {
		p.User, p.Group = ptr.Deref(c.User, ""), ptr.Deref(c.Group, "")
		if c.Capabilities != nil {
			p.Capabilities, _ = sandbox.ParseCapabilities(c.Capabilities) // invalid names were reported before
			p.Asked = true
		}
		if c.MemoryLimit != nil {
			p.MemoryBytes, p.MemoryAsked = c.MemoryLimit.Value(), true
		}
		if c.CPULimit != nil {
			p.MilliCPU = c.CPULimit.MilliValue()
		}
	}
}

// Rules returns the rules for pods' requests.
func Rules(c *config.Config) pods.Rules {
	return pods.Rules{PodLevelResources: c.Feature(config.FeaturePodLevelResources), EmptyPodLevel: c.Feature(config.FeatureFixQOSClass)}
}

// Manifests returns the manifests on a node without an API server.
func Manifests(c *config.Config, wanted *pods.Wanted) *podcri.Manifests {
	rules := Rules(c)
	rules.Wanted = wanted
	m := podcri.NewManifests(c.PodManifestDir, rules)
	if c.StaticPodPath != "" { // a path on the node, as in the kubelet
		m.WithStatic(c.Node(), c.StaticPodPath, c.NodeName)
	}
	return m
}

// API returns a client of the API server for this node.
func API(c *config.Config, version string, log *slog.Logger) (*kubeapi.Client, error) {
	return kubeapi.New(kubeapi.Options{Kubeconfig: c.Kubeconfig, NodeName: c.NodeName, UserAgent: "evictd/" + version, Log: log})
}

// PodsDir returns the path at which this process finds the kubelet's directory with a directory per pod, named by uid.
func PodsDir(c *config.Config) string {
	return c.Node().Path(filepath.Join(c.KubeletRootDir, "pods"))
}

// Cgroups returns the location of the node's cgroups. runtime may be nil: then it is not asked for
// its cgroup driver.
func Cgroups(c *config.Config, runtime *grpc.ClientConn) cgroups.Node {
	node := cgroups.Node{FS: c.Node(), Root: c.CgroupRoot}
	if runtime != nil {
		client := runtimeapi.NewRuntimeServiceClient(runtime)
		node.Ask = func(ctx context.Context) (string, error) { return criclient.CgroupDriver(ctx, client) }
	}
	return node
}

// WatchCgroups returns a watch of the node's cgroups, which passes the cgroup driver on to plugins.
// runtime may be nil.
func WatchCgroups(c *config.Config, runtime *grpc.ClientConn, o cgroups.Options) *cgroups.Watch {
	o.Node, o.Configured = Cgroups(c, runtime), c.CgroupDriver
	if c.Source == config.SourceSummary { // which has the stats of pods
		o.Running = nil
	}
	return cgroups.NewWatch(o)
}
