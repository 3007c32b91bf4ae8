package host

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/shared/eviction"
)

// KillPodFunc ends pod and returns when it is dead or will not die (KillPodFunc
// of the kubelet's eviction). gracePeriodOverride is in seconds, nil for the
// pod's own. statusFn, which may be nil, puts the reason into the pod's status.
// It is called from several goroutines. A second call for a pod may come before
// the first has returned, from a hard eviction or a preemption: it may shorten
// the grace period that is running and must never lengthen it, and both of the
// statusFn apply, in turn.
type KillPodFunc func(pod *v1.Pod, isEvicted bool, gracePeriodOverride *int64, statusFn func(*v1.PodStatus)) error

// ActivePodsFunc returns the pods that run or are about to, in a stable order,
// with the resources that are allocated to them. The manager does not change
// them, and neither may anybody else.
type ActivePodsFunc func() []*v1.Pod

// PodCleanedUpFunc reports whether nothing is left of a pod that was killed.
type PodCleanedUpFunc func(*v1.Pod) bool

// ReclaimFunc stands in for a step of node-level reclaim. It must return soon after
// its context ends, which has a deadline of ten minutes: meanwhile no pod is
// evicted for a disk.
type ReclaimFunc = func(context.Context) error

// DiskInfoProvider knows which filesystems the node has.
type DiskInfoProvider interface {
	// HasDedicatedImageFs reports whether images have a filesystem of their own.
	HasDedicatedImageFs(context.Context) (bool, error)
	// HasDedicatedContainerFs reports whether, with images on their own,
	// writable layers are on another one, the kubelet's.
	HasDedicatedContainerFs(context.Context) (bool, error)
}

// Recorder takes the events of the eviction manager, worded as the kubelet's. It
// is called from several goroutines.
type Recorder interface {
	NodeEvent(eventType, reason, message string)
	PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string)
}

// Clock is the time that policy sees, and in which a manager with kubelet pacing
// waits for the clean-up of pods. A clock of k8s.io/utils/clock is one.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// Embedding configures a Manager inside a program that has pods, a way to kill them and perhaps
// figures of its own.
type Embedding struct {
	// Config is as for the daemon. Its parts that say how to find and kill pods
	// have no effect.
	Config Config
	// Version and Commit name the build.
	Version, Commit string
	Log             *slog.Logger
	// KillPod is required.
	KillPod KillPodFunc
	// Recorder is required.
	Recorder Recorder
	// Clock is the real one if nil.
	Clock Clock
	// Summary returns the kubelet's stats summary of now, as JSON, for all plugins
	// to work from. If it is nil, they use the source that Config names. Each pass waits for it,
	// 10 s at most, whatever Config.Summary.Timeout says.
	Summary func(context.Context) ([]byte, error)
	// Reclaim stands in for steps of node-level reclaim, by name: "container-gc",
	// "image-gc".
	Reclaim map[string]ReclaimFunc
	// SkipStepsBecause, if not empty, is why steps of plugins that Reclaim does not
	// stand in for are not run: they would free what is on this machine.
	SkipStepsBecause string
	// MinDeadline is the least time that every call of a plugin gets. A program whose time is not
	// the machine's, as a replay, waits for a slow machine and does not conclude anything from
	// it.
	MinDeadline time.Duration
	// Explain has each Pass list its ranking, for people.
	Explain bool
	// Plugins run in this process, by name. Those of Config.PluginDir run beside
	// them, unless it is empty: then the directory may be missing and come later. A
	// file there takes the place of the plugin of its name, and a plugin of a vendor
	// is in charge of what it offers as beside the built-in ones.
	Plugins map[string]eviction.Plugin
	// Thresholds, if not nil, are those of the kubelet's signals as values, in place of
	// those that Config has, also after a Reload. Config's of custom signals hold all
	// the same.
	Thresholds []Threshold
	// Metrics, if not nil, receives what the kubelet's own metrics count.
	Metrics Metrics
}

// A Metrics counts what a kubelet counts of its eviction manager. It is called from
// several goroutines.
type Metrics interface {
	// Evicted counts a pod that was evicted, as kubelet_evictions does: by a signal, or
	// by the name of the limit of local storage that the pod was over. A kill that
	// fails counts too.
	Evicted(signal eviction.Signal)
	// StatsAge receives the age of a signal's figure when it was acted on
	// (kubelet_eviction_stats_age_seconds).
	StatsAge(signal eviction.Signal, age time.Duration)
	// Preempted counts a pod that was killed for a critical one, by the first resource
	// that this one lacked (kubelet_preemptions).
	Preempted(resource string)
}

// A Threshold is a point below which a signal is under pressure. A Threshold of the
// kubelet's eviction API has the same fields.
type Threshold struct {
	Signal eviction.Signal
	Value  ThresholdValue
	// GracePeriod is the time for which the threshold must be met before a pod is evicted, 0 for
	// a hard one.
	GracePeriod time.Duration
	// MinReclaim must be available beyond Value once the threshold was met, nil for nothing.
	MinReclaim *ThresholdValue
}

// A ThresholdValue is an amount: fixed, or a part of the capacity.
type ThresholdValue struct {
	// Quantity is the amount in the signal's base unit, unless it is nil.
	Quantity *resource.Quantity
	// Percentage is the part of the capacity, 0.1 for 10 %, if Quantity is nil.
	Percentage float32
}

// A Pass reports the observations, conclusions and actions of one pass.
type Pass = loop.PassResult
