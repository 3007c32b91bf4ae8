package replay

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/policy"
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
	Admit(*v1.Pod) policy.Admission
}

// A Start makes a Manager of parts. The Manager makes no passes of its own. stop
// ends it and all that belongs to it, and returns when nothing is left.
type Start func(ctx context.Context, parts Parts) (m Manager, stop func(), err error)

// Parts are a scenario as a Manager sees it, in the shapes of package host's
// embedding API.
type Parts struct {
	Config config.Config
	Log    *slog.Logger

	ActivePods func() []*v1.Pod
	KillPod    func(pod *v1.Pod, isEvicted bool, gracePeriodOverride *int64, statusFn func(*v1.PodStatus)) error
	CleanedUp  func(*v1.Pod) bool
	Recorder   Recorder
	Clock      Clock
	Summary    func(context.Context) ([]byte, error)
	DiskInfo   DiskInfo
	// Reclaim are the steps of node-level reclaim, by name.
	Reclaim map[string]func(context.Context) error
}

// A Recorder takes events.
type Recorder interface {
	NodeEvent(eventType, reason, message string)
	PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string)
}

// A Clock is the time of passes and of the wait for clean-up. A wait that is
// asked for with After is over at once, with the clock of waits advanced.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// DiskInfo says which filesystems there are.
type DiskInfo interface {
	HasDedicatedImageFs(context.Context) (bool, error)
	HasDedicatedContainerFs(context.Context) (bool, error)
}

func (w *world) parts(c config.Config, log *slog.Logger) Parts {
	return Parts{
		Config: c, Log: log,
		ActivePods: w.activePods, KillPod: w.kill, CleanedUp: w.cleanedUp,
		Recorder: w, Clock: w, Summary: w.fetch, DiskInfo: w,
		Reclaim: map[string]func(context.Context) error{stepContainerGC: w.collectContainers, stepImageGC: w.collectImages},
	}
}

// Patience is how long plugins may take in a replay: what a slow machine does to
// their deadlines is no part of a scenario.
const Patience = time.Minute
