package host

import (
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/pods"
	podcri "github.com/evictd/evictd/host/internal/podsource/cri"
	"github.com/evictd/evictd/host/internal/victim"
	victimcri "github.com/evictd/evictd/host/internal/victim/cri"
)

// A podSource knows the pods of the node, and what is wrong with what it knows them
// from.
type podSource interface {
	pods.Source
	Problems() []pods.Problem
}

// A mode is how a daemon finds the pods of the node and ends them.
type mode struct {
	pods   func(*Config, runtimeapi.RuntimeServiceClient) podSource
	killer func(*Config, runtimeapi.RuntimeServiceClient) victim.Killer
}

// modes are those of Config.Mode.
var modes = map[string]mode{
	config.ModeCRI: {
		pods: func(c *Config, runtime runtimeapi.RuntimeServiceClient) podSource {
			manifests := podcri.NewManifests(c.PodManifestDir, rules(c))
			if c.StaticPodPath != "" { // a path of the node, as the kubelet has it
				manifests.WithStatic(filepath.Join(c.RootDir, c.StaticPodPath), c.NodeName)
			}
			return podcri.New(runtime, manifests)
		},
		killer: func(c *Config, runtime runtimeapi.RuntimeServiceClient) victim.Killer {
			return victimcri.New(runtime, filepath.Join(c.RootDir, c.KubeletRootDir, "pods"))
		},
	},
}
