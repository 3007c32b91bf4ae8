package replay

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/admission"
	"github.com/evictd/evictd/host/internal/core/loop"
)

// A Manager is an eviction manager that makes passes on request.
type Manager interface {
	// Synchronize makes one complete pass and returns after its kills.
	Synchronize(context.Context) (loop.PassResult, error)
	// AwaitCleanup waits, on Clock, for the pods that the pass evicted. It returns the context's
	// error.
	AwaitCleanup(context.Context, loop.PassResult) error
	IsUnderMemoryPressure() bool
	IsUnderDiskPressure() bool
	IsUnderPIDPressure() bool
	Admit(*v1.Pod) admission.Answer
}

// A Start makes a Manager for a World through package host's embedding API. The Manager makes
// passes only on request. stop ends it and everything that belongs to it, and waits for that.
type Start func(ctx context.Context, w *World) (m Manager, stop func(), err error)
