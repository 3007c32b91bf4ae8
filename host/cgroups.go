package host

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/cgroups"
	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/shared/nodefs"
)

// openCgroups looks at the node's cgroups, so that plugins are told of the driver
// that it has.
func (m *Manager) openCgroups() {
	c := m.config()
	node := cgroupsOf(c)
	if m.runtime != nil {
		node.Ask = askDriver(runtimeapi.NewRuntimeServiceClient(m.runtime))
	}
	o := cgroups.Options{
		Node: node, Configured: c.CgroupDriver, Tell: m.tellPlugins, Tally: m.metrics.PodsMisplaced, Log: m.log,
	}
	// A summary has the figures of pods from elsewhere.
	if c.Source != config.SourceSummary && (m.embedded == nil || m.embedded.Summary == nil) {
		o.Running = m.running
	}
	m.cgroups = cgroups.NewWatch(o)
}

func cgroupsOf(c *Config) cgroups.Node {
	return cgroups.Node{FS: nodefs.FS{Root: c.RootDir}, Root: c.CgroupRoot}
}

func askDriver(client runtimeapi.RuntimeServiceClient) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return criclient.CgroupDriver(ctx, client) }
}

// tellPlugins configures the plugins anew, after what is known of the node has
// changed.
func (m *Manager) tellPlugins(ctx context.Context, _ string) error {
	select {
	case m.reloading <- struct{}{}:
		defer func() { <-m.reloading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c := m.config()
	return m.supervisor.Reconfigure(ctx, m.facts(c), pluginSettings(c))
}

// running lists the pods that run.
func (m *Manager) running(ctx context.Context) ([]cgroups.Pod, error) {
	active, err := m.loop.Pods.Active(ctx)
	if err != nil {
		return nil, err
	}
	var out []cgroups.Pod
	for _, p := range active.Pods {
		if p.Row.Running {
			out = append(out, cgroups.Pod{UID: p.Row.UID, Name: p.String(), QoSClass: string(p.Row.QoSClass)})
		}
	}
	return out, nil
}

// CheckCgroups reports why the node names the cgroups of pods otherwise than c says.
// Where nobody can tell yet, or c says nothing, there is nothing to report.
func CheckCgroups(ctx context.Context, c *Config) error {
	if c.CgroupDriver == "" {
		return nil
	}
	node := cgroupsOf(c)
	if conn, err := criclient.Dial(c.RuntimeEndpoint); err == nil { // else it was reported
		defer func() { _ = conn.Close() }() // nothing is lost
		node.Ask = askDriver(runtimeapi.NewRuntimeServiceClient(conn))
	}
	return node.Find(ctx).Contradicts(c.CgroupDriver)
}
