// Package chartvalues has the values of the Helm chart that evictd needs in a cluster of the suite.
package chartvalues

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// For returns the values, without thresholds, for an image that was imported. Each call has another
// healthzBindAddress.
func For(ctx context.Context, c *cluster.Cluster, repository, tag string) (map[string]any, error) {
	admin, err := c.Config(cluster.Admin)
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(admin.Host)
	if err != nil {
		return nil, err
	}
	port, err := cluster.FreePort(ctx)
	return map[string]any{
		"image":     map[string]any{"repository": repository, "tag": tag, "pullPolicy": "Never"},
		"apiServer": map[string]any{"host": server.Hostname(), "port": server.Port()},
		"hostPaths": map[string]any{
			"kubeletRootDir": c.KubeletRootDir, "runtimeSocket": c.Socket, "podLogsDir": c.PodLogsDir,
			"pluginDir": filepath.Join(c.Dir, "evictd", "plugins"),
			"runDir":    filepath.Join(c.Dir, "evictd", "run"), "stateDir": filepath.Join(c.Dir, "evictd", "state"),
		},
		"config": map[string]any{"cgroupRoot": c.CgroupRoot, "healthzBindAddress": fmt.Sprintf("127.0.0.1:%d", port)},
	}, err
}
