//go:build kubernetes_1_35

package kubernetes

import (
	"log/slog"

	"k8s.io/client-go/tools/cache"
)

// reflectorOptions returns the options of the client-go of Kubernetes 1.35, which is in a
// kubelet of that release with evictd inside: it has no option for the wait between requests.
// Such a kubelet follows the API server by itself.
func reflectorOptions(*slog.Logger) cache.ReflectorOptions {
	return cache.ReflectorOptions{Name: "pods"}
}
