package replay

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/admission"
	"github.com/evictd/evictd/host/internal/loop"
)

// A Manager is an eviction manager that makes a pass when it is asked to.
type Manager interface {
	// Synchronize makes one whole pass and returns when the kills in it did.
	Synchronize(context.Context) (loop.PassResult, error)
	// AwaitCleanup waits for the pods that the pass evicted, in the time of Clock.
	// The error is that of the context.
	AwaitCleanup(context.Context, loop.PassResult) error
	IsUnderMemoryPressure() bool
	IsUnderDiskPressure() bool
	IsUnderPIDPressure() bool
	Admit(*v1.Pod) admission.Answer
}

// A Start makes a Manager of a World, by package host's embedding API. The Manager
// makes no passes of its own. stop ends it and all that belongs to it, and returns
// when nothing is left.
type Start func(ctx context.Context, w *World) (m Manager, stop func(), err error)

// MinDeadline is the time that plugins get in a replay: the effects of a slow machine on their
// deadlines are no part of a scenario.
const MinDeadline = time.Minute
