package loop

import (
	"context"
	"iter"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// A Recorder takes the events of the eviction manager, worded as the kubelet's.
type Recorder interface {
	victim.Recorder
	NodeEvent(eventType, reason, message string)
}

// Metrics counts passes and evictions. It is safe for concurrent use.
type Metrics interface {
	observe.Metrics
	victim.Metrics
	Passed(trigger string, took time.Duration)
	Condition(c eviction.Condition, yes bool)
	Evicted(s eviction.Signal)
	StatsAge(s eviction.Signal, age time.Duration)
	PodsUnmanaged(n int)
}

// Records stores decisions with their reasons.
type Records interface {
	// Why explains the eviction of d's first pod in one line.
	Why(d *decision.Decision) string
	// Passed receives the conclusion of a pass or of an action. It must not block.
	Passed(c Conclusion)
}

// A Journal saves state that a new host needs after a restart.
type Journal interface {
	victim.Journal
	SaveConditions(lastSeen map[eviction.Condition]time.Time) error
	SaveOwed(all []policy.Owed) error // the open promises of ended victims, all of them
}

// RankVeto says under which thresholds a pod that a custom ranker left out is
// safe from eviction.
type RankVeto string

// The vetoes.
const (
	VetoSoft   RankVeto = "soft"
	VetoAlways RankVeto = "always"
	VetoNever  RankVeto = "never"
)

func (v RankVeto) standsFor(t policy.Threshold) bool {
	return v == VetoAlways || v != VetoNever && !t.Hard()
}

// Settings are the parts of the configuration that a reload may change between two passes.
type Settings struct {
	observe.Config

	TransitionPeriod         time.Duration
	MaxPodGracePeriodSeconds int32
	// MonitoringInterval is the time between passes that nothing woke. With 0 only Synchronize makes
	// passes.
	MonitoringInterval time.Duration
	// MemoryNotifications lets plugins watch the memory signals
	// (kernelMemcgNotification of the kubelet).
	MemoryNotifications bool
	// DryRun decides and logs, but kills no pod.
	DryRun   bool
	Pacing   Pacing
	RankVeto RankVeto
	// LocalStorageLimits evicts pods that exceed their own local storage limits
	// (localStorageCapacityIsolation of the kubelet).
	LocalStorageLimits bool
	LocalRules         policy.LocalRules
	// ID identifies this configuration in records.
	ID string
	// PodLevelResources counts pod-level resource requests (the kubelet's feature gate).
	PodLevelResources bool
}

// A ReclaimFunc runs a step of node-level reclaim in place of a plugin.
type ReclaimFunc = func(ctx context.Context) error

// Restored holds the state that a former host on the same boot saved.
type Restored struct {
	// Kills lists those not known to have ended, or not reported to the API server, oldest first.
	// They are finished first.
	Kills []victim.Kill
	// Conditions maps conditions to when they were last seen, on the clock of this process:
	// differences to time.Now are correct also after a jump of the wall clock.
	Conditions map[eviction.Condition]time.Time
	// Owed holds the open promises of ended victims.
	Owed []policy.Owed
}

// Options configures a Loop. Fields that may be missing say so.
type Options struct {
	observe.Options

	// Metrics is the observer's too.
	Metrics  Metrics
	Settings Settings
	// Pin returns the plugins that run now, pinned for a pass. Changed delivers a value when the
	// set of plugins has changed.
	Pin     func() *registry.Pin
	Changed <-chan struct{}
	Pods    pods.Source
	// Manifests, if not nil, returns the problems of pod manifests at the start, before Pods would
	// report them with the first listing.
	Manifests func() []pods.Problem
	Killer    victim.Killer
	Recorder  Recorder
	Journal   Journal
	// After is the timer of AwaitCleanup. Other waits use the real clock.
	After func(time.Duration) <-chan time.Time
	// BootNanos reads CLOCK_BOOTTIME. It may be nil if sample times are not checked.
	BootNanos func() int64
	// Reclaim holds functions that replace steps of node-level reclaim, by name.
	Reclaim map[string]ReclaimFunc
	// SkipStepsBecause, if not empty, disables the steps that Reclaim does not replace, and gives
	// the reason.
	SkipStepsBecause string
	// TellConditions returns reason and message of the event about the node when a condition changes. It
	// is nil inside a kubelet, which sends its own.
	TellConditions func(c eviction.Condition, status bool, a policy.Assessment, observed map[eviction.Signal]eviction.Observation) (reason, message string)
	// Holder, if not nil, names the largest user of a resource outside of all pods.
	Holder func(eviction.Signal) string
	// PodUsage, if not nil, receives what pods use of a signal, in its base unit, which counts until then: as
	// ranked by it, or as checked against their limits on local storage. It must not keep used.
	PodUsage func(s eviction.Signal, limits bool, used iter.Seq2[*eviction.Pod, int64], until time.Time)
	// Conditions, if not nil, receives the node's conditions in each pass, before it acts. It must
	// not block.
	Conditions func([]eviction.Condition)
	// Alive, if not nil, is called by the loop's goroutine in each iteration, at least once per
	// AliveEvery unless a pass takes longer. It must not block.
	Alive      func()
	AliveEvery time.Duration
	// Simulated: time is not the machine's. Each part of a pass may take SimulatedDeadline at least.
	Simulated bool
	// Records, if not nil, stores decisions with their reasons.
	Records Records
	// Explain fills in the Ranking of outcomes.
	Explain bool
	// Restored, if not zero, was saved by a former host on the same boot.
	Restored Restored
}
