package host

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/cluster/kubeapi"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/eviction"
)

// Config is the configuration of a Manager: evictd's configuration file with defaults applied.
// DefaultConfig and LoadConfig make one.
type Config = config.Config

// DefaultConfig returns the default configuration, for a program to modify.
func DefaultConfig() Config { return config.Default() }

// LoadConfig reads evictd's configuration file. The error lists every problem, one per line.
func LoadConfig(file string) (Config, error) { return config.Load(file) }

// Options configures a Daemon. Config, Version, Commit and Log are required.
type Options struct {
	Config Config
	// Version and Commit name the build.
	Version, Commit string
	Log             *slog.Logger
	// DroppedLogLines returns the number of lines of the log dropped so far.
	DroppedLogLines func() uint64
	// ConfigMap is followed with mode kubernetes, nil for none.
	ConfigMap *kubeapi.ConfigMap
	// Alive is called by the deciding goroutine at least once per AliveEvery unless it is stuck.
	// concluded reports whether any pass has concluded something yet. It must not block.
	Alive      func(concluded bool)
	AliveEvery time.Duration
}

// KillPodFunc kills pod and returns when it is dead or cannot be killed (the kubelet's
// eviction.KillPodFunc). gracePeriodOverride is in seconds; nil means the pod's own. statusFn,
// which may be nil, writes the reason into the pod's status. It is called from several goroutines.
// A hard eviction or a preemption may call it again for a pod before the first call has returned:
// that call may shorten the running grace period and must never lengthen it, and both statusFn
// apply, in turn.
type KillPodFunc func(pod *v1.Pod, isEvicted bool, gracePeriodOverride *int64, statusFn func(*v1.PodStatus)) error

// ActivePodsFunc returns the pods that run or are about to, in a stable order, with the resources
// that are allocated to them. Neither the manager nor the caller may modify them.
type ActivePodsFunc func() []*v1.Pod

// PodCleanedUpFunc reports whether all resources of a killed pod are cleaned up.
type PodCleanedUpFunc func(*v1.Pod) bool

// ReclaimFunc replaces a step of node-level reclaim. Its context has a deadline of ten minutes,
// after which it must return soon: until then no pod is evicted for a disk.
type ReclaimFunc = func(context.Context) error

// DiskInfoProvider reports which filesystems the node has.
type DiskInfoProvider interface {
	// HasDedicatedImageFs reports whether images are on a filesystem other than the kubelet's.
	HasDedicatedImageFs(context.Context) (bool, error)
	// HasDedicatedContainerFs reports whether, with a dedicated image filesystem, writable layers
	// are on the kubelet's filesystem instead.
	HasDedicatedContainerFs(context.Context) (bool, error)
}

// Recorder takes the events of the eviction manager, worded as the kubelet's. It
// is called from several goroutines.
type Recorder interface {
	NodeEvent(eventType, reason, message string)
	PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string)
}

// Clock is the clock that policy uses, and on which a manager with kubelet pacing waits for the
// clean-up of pods. A clock of k8s.io/utils/clock implements it.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// Embedding configures an Embedded inside a program that supplies the pods, a way to kill them and
// perhaps the stats.
type Embedding struct {
	// Config is the same as for the daemon. Its settings for finding and killing pods have no
	// effect.
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
	// Summary returns the kubelet's current stats summary as JSON, and makes Config.Source "summary".
	// Each pass waits for it, up to 10 s, regardless of Config.Summary.Timeout.
	Summary func(context.Context) ([]byte, error)
	// WrapSummary, if not nil, changes the plugin with the summary's figures.
	WrapSummary func(*eviction.Plugin)
	// Reclaim replaces steps of node-level reclaim, by name: "container-gc", "image-gc".
	Reclaim map[string]ReclaimFunc
	// SkipStepsBecause, if not empty, disables the plugins' steps that Reclaim does not replace,
	// and gives the reason: they would free space on this machine.
	SkipStepsBecause string
	// Simulated: time and figures are not those of this machine, as in a replay. A plugin call may
	// then take a minute, so that a slow machine does not make a plugin fail.
	Simulated bool
	// Explain fills in the human-readable ranking of each Pass.
	Explain bool
	// Plugins run in this process, by name. The plugins in Config.PluginDir run too, unless it is
	// empty; the directory may be created later. A file there replaces the plugin of the same name,
	// and a vendor's plugin takes charge of its signals as it does with the built-in plugins.
	Plugins map[string]eviction.Plugin
	// Thresholds, if not nil, replaces Config's thresholds of the kubelet's signals, also after a
	// Reload. Config's thresholds of custom signals stay in force.
	Thresholds []Threshold
	// Metrics, if not nil, receives the counts of the kubelet's own eviction metrics.
	Metrics Metrics
}

// A Metrics receives the counts of the kubelet's eviction metrics. It is called from several
// goroutines.
type Metrics interface {
	// Evicted counts an evicted pod (kubelet_evictions): by signal, or by the name of the local
	// storage limit that the pod exceeded. A kill that fails counts too.
	Evicted(signal eviction.Signal)
	// StatsAge receives the age of an observation when the manager acted on it
	// (kubelet_eviction_stats_age_seconds).
	StatsAge(signal eviction.Signal, age time.Duration)
	// Preempted counts a pod killed for a critical one, by the first resource that the critical pod
	// lacked (kubelet_preemptions).
	Preempted(resource string)
}

// A Threshold is a point below which a signal is under pressure. A Threshold of the
// kubelet's eviction API has the same fields.
type Threshold struct {
	Signal eviction.Signal
	Value  ThresholdValue
	// GracePeriod is the time for which the threshold must be met before a pod is evicted; 0 makes
	// it a hard threshold.
	GracePeriod time.Duration
	// MinReclaim must become available beyond Value once the threshold was met; nil for nothing.
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

// Event is an event of the eviction manager, worded as the kubelet's.
type Event struct {
	Time time.Time `json:"time"`
	// Kind is "Node" or "Pod"; Name and UID say which.
	Kind string `json:"kind"`
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Type is "Normal" or "Warning".
	Type        string            `json:"type"`
	Reason      string            `json:"reason"`
	Message     string            `json:"message"`
	Annotations map[string]string `json:"annotations,omitempty"`
}
