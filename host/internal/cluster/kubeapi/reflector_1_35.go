//go:build kubernetes_1_35

package kubeapi

import (
	"log/slog"

	"k8s.io/client-go/tools/cache"
)

// ReflectorOptions returns options for the client-go of Kubernetes 1.35, used in a kubelet of that
// release with evictd inside: it has no option for the pause between requests. Such a kubelet
// itself watches the API server.
func ReflectorOptions(name string, _ *slog.Logger) cache.ReflectorOptions {
	return cache.ReflectorOptions{Name: name}
}
