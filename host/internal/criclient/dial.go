// Package criclient asks the container runtime over CRI: what it is, and which
// sandboxes and containers it has.
//
// It does not know which pods may be evicted, has no manifests (podsource/cri) and
// ends nothing (victim/cri).
package criclient

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/crisocket"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// maxMessageBytes is how large a list may be: the kubelet's limit (16 MiB)
	// and as much again, for a node on which exited containers have piled up.
	maxMessageBytes = 32 << 20
	// probeTimeout bounds the question at the start.
	probeTimeout = 2 * time.Second
	// driverTimeout bounds the question for the cgroup driver.
	driverTimeout = time.Second
)

// Dial returns a connection to the container runtime at endpoint, which is made
// by the first call and again whenever the runtime comes back. An error means
// that the endpoint can never work.
func Dial(endpoint string) (*grpc.ClientConn, error) {
	return crisocket.Dial(endpoint, maxMessageBytes)
}

// Probe asks the runtime for its name and version, so that a wrong endpoint is
// found at the start and not by the first eviction. It takes at most 2 s.
func Probe(ctx context.Context, client runtimeapi.RuntimeServiceClient) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	v, err := client.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return "", fmt.Errorf("ask container runtime for its version: %w", err)
	}
	return v.GetRuntimeName() + " " + v.GetRuntimeVersion(), nil
}

// CgroupDriver asks the runtime for its cgroup driver, "cgroupfs" or "systemd". It
// is "" if the runtime does not tell: containerd does so since 2.0. It takes at most
// a second.
func CgroupDriver(ctx context.Context, client runtimeapi.RuntimeServiceClient) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	reply, err := client.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("ask container runtime for its cgroup driver: %w", err)
	case reply.GetLinux() == nil:
		return "", nil
	}
	switch driver := reply.GetLinux().GetCgroupDriver(); driver {
	case runtimeapi.CgroupDriver_CGROUPFS:
		return nodefs.Cgroupfs, nil
	case runtimeapi.CgroupDriver_SYSTEMD:
		return nodefs.Systemd, nil
	default:
		return "", fmt.Errorf("ask container runtime for its cgroup driver: unknown driver %s", driver)
	}
}
