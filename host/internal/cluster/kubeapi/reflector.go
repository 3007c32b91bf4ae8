//go:build !kubernetes_1_35

package kubeapi

import (
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// Nodes must not overload an API server that comes back, nor be without it for long.
const firstRetry, maxRetry = 500 * time.Millisecond, 10 * time.Second

// ReflectorOptions returns the options of a watch: an unreachable API server is asked again after
// half a second to a second, and then with growing pauses of up to 10 to 20 s.
func ReflectorOptions(name string, log *slog.Logger) cache.ReflectorOptions {
	logger := logr.FromSlogHandler(log.Handler())
	return cache.ReflectorOptions{
		Name: name, Logger: &logger, Backoff: &wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 1, Steps: 10, Cap: maxRetry},
	}
}
