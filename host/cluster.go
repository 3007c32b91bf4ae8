package host

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/klog/v2"

	"github.com/evictd/evictd/host/internal/cluster/kubeapi"
	"github.com/evictd/evictd/host/internal/cluster/nodestatus"
	podkubernetes "github.com/evictd/evictd/host/internal/cluster/podsource/kubernetes"
	victimkubernetes "github.com/evictd/evictd/host/internal/cluster/victim/kubernetes"
)

// A cluster holds the connection of a daemon beside a kubelet to the API server while it runs.
type cluster struct {
	api        *kubeapi.Client
	source     *podkubernetes.Source
	killer     *victimkubernetes.Killer
	conditions *nodestatus.Keeper
	// configMap is nil if none is followed.
	configMap *kubeapi.ConfigMap
	nodeName  string
	log       *slog.Logger
}

// run watches pods and records evictions in the API server until ctx ends.
func (c *cluster) run(ctx context.Context) {
	klog.SetSlogLogger(c.log) // for what client-go logs without being given a logger
	var running sync.WaitGroup
	running.Go(func() { c.conditions.Run(ctx) })
	running.Go(func() { c.source.Run(ctx, c.log) })
	if c.configMap != nil {
		running.Go(func() { c.api.FollowConfigMap(ctx, *c.configMap) })
	}
	c.killer.Run(ctx)
	running.Wait()
}
