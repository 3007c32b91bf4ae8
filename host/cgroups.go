package host

import (
	"context"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/cgroups"
	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/host/internal/metrics"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/nodefs"
)

// watchCgroups looks at the node's cgroups, so that plugins are told of the driver
// that it has. A runtime and the embedding program are there or not.
func watchCgroups(c *Config, runtime *grpc.ClientConn, e *embedding, o cgroups.Options) *cgroups.Watch {
	o.Node, o.Configured = cgroupsOf(c, runtime), c.CgroupDriver
	// A summary has the figures of pods from elsewhere.
	if c.Source == config.SourceSummary || e != nil && e.Summary != nil {
		o.Running = nil
	}
	return cgroups.NewWatch(o)
}

func cgroupsOf(c *Config, runtime *grpc.ClientConn) cgroups.Node {
	node := cgroups.Node{FS: nodefs.FS{Root: c.RootDir}, Root: c.CgroupRoot}
	if runtime != nil {
		client := runtimeapi.NewRuntimeServiceClient(runtime)
		node.Ask = func(ctx context.Context) (string, error) { return criclient.CgroupDriver(ctx, client) }
	}
	return node
}

// running lists the pods that run, and counts those without a manifest.
func running(ctx context.Context, source pods.Source, m *metrics.Metrics) ([]cgroups.Pod, error) {
	active, err := source.Active(ctx)
	if err != nil {
		return nil, err
	}
	var out []cgroups.Pod
	unmanaged := 0
	for _, p := range active.Pods {
		if !p.HasManifest {
			unmanaged++
		}
		if p.Row.Running {
			out = append(out, cgroups.Pod{UID: p.Row.UID, Name: p.String(), QoSClass: string(p.Row.QoSClass), Containers: p.ContainerIDs})
		}
	}
	m.PodsUnmanaged(unmanaged)
	return out, nil
}

// checkCgroups reports why the node names the cgroups of pods otherwise than c says.
// Where nobody can tell yet, or c says nothing, there is nothing to report.
func checkCgroups(ctx context.Context, c *Config) error {
	if c.CgroupDriver == "" {
		return nil
	}
	runtime, err := criclient.Dial(c.RuntimeEndpoint)
	if err == nil { // else it was reported
		defer func() { _ = runtime.Close() }() // nothing is lost
	}
	return cgroupsOf(c, runtime).Find(ctx).Contradicts(c.CgroupDriver)
}
