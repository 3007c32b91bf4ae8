package pods

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/crisocket"
)

const (
	// maxMessageBytes is how large a list may be: the kubelet's limit (16 MiB)
	// and as much again, for a node on which exited containers have piled up.
	maxMessageBytes = 32 << 20
	// probeTimeout bounds the question at the start.
	probeTimeout = 2 * time.Second
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
