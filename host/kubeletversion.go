package host

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/host/internal/cluster/kubeapi"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/parts"
)

const (
	// firstKubeletVersion bounds the wait for the kubelet's version at start: an evictd that cannot
	// reach the API server must start nevertheless.
	firstKubeletVersion = 2 * time.Second
	// kubeletVersionRetry and kubeletVersionInterval are the intervals at which the version is
	// requested while it is unknown, and afterwards: a kubelet may be upgraded while evictd runs.
	kubeletVersionRetry, kubeletVersionInterval = 10 * time.Second, 10 * time.Minute
	// kubeletVersionJitter is the random part of an interval: nodes may start at the same time.
	kubeletVersionJitter = 0.2
)

// openAPI returns a client of the API server for a daemon beside a kubelet, and sets
// c.KubeletVersion if the API server answers soon. It returns nil in other modes.
func openAPI(ctx context.Context, c *Config, version string, log *slog.Logger) (*kubeapi.Client, error) {
	if c.Mode != config.ModeKubernetes {
		return nil, nil
	}
	api, err := parts.API(c, version, log)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %q: %w", c.Kubeconfig, err)
	}
	ctx, cancel := context.WithTimeout(ctx, firstKubeletVersion)
	defer cancel()
	if c.KubeletVersion, err = api.KubeletVersion(ctx); err != nil {
		log.Warn("kubelet version unknown", "compatibility", c.Kubernetes(), "error", err)
	}
	return api, nil
}

// followKubelet calls set when get returns another version of the node's kubelet than known, until
// ctx ends.
func followKubelet(ctx context.Context, get func(context.Context) (string, error), known string, set func(context.Context, string) error, log *slog.Logger) {
	interval := kubeletVersionInterval
	if known == "" {
		interval = kubeletVersionRetry
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.Jitter(interval, kubeletVersionJitter)):
		}
		is, err := get(ctx)
		if known != "" || err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown { // reachable
			interval = kubeletVersionInterval
		}
		if err != nil || is == known {
			continue
		}
		if err := set(ctx, is); err != nil {
			log.Warn("kubelet version not in force, retrying", "kubelet", is, "error", err)
			continue
		}
		log.Info("kubelet version in force", "kubelet", is, "before", known)
		known = is
	}
}
