package host

import (
	"context"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/host/internal/node/cgroups"
)

// running lists the running pods and counts those without a manifest.
func running(ctx context.Context, source pods.Source, m *metrics.Metrics) ([]cgroups.Pod, error) {
	active, err := source.Active(ctx)
	if err != nil {
		return nil, err
	}
	active = active.Rechecked(ctx)
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
