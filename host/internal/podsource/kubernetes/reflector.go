//go:build !kubernetes_1_35

package kubernetes

import (
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

func reflectorOptions(log *slog.Logger) cache.ReflectorOptions {
	logger := logr.FromSlogHandler(log.Handler())
	return cache.ReflectorOptions{
		Name: "pods", Logger: &logger, Backoff: &wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 1, Steps: 10, Cap: maxRetry},
	}
}
