package loop

import (
	"context"
	"time"

	"github.com/evictd/evictd/host/internal/observe"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/recorder"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// A Recorder takes the events of the eviction manager, worded as the kubelet's.
type Recorder interface {
	victim.Recorder
	NodeEvent(eventType, reason, message string)
}

// A Journal keeps across restarts what a new host must know.
type Journal interface {
	victim.Journal
	SaveConditions(lastSeen map[eviction.Condition]time.Time) error
}

// Pacing says what the next decision waits for.
type Pacing string

// The pacings.
const (
	// PacingOneVictim takes no second pod before it is seen what the first one's end
	// has brought: see policy.Ledger. Passes go on meanwhile.
	PacingOneVictim Pacing = "evictd"
	// PacingKubelet makes one pass at a time and waits for the kill that it decided
	// on, and then up to half a minute until the pod is cleaned up. Wakes meanwhile
	// join the next pass. The relief of the last victim is not waited for.
	PacingKubelet Pacing = "kubelet"
)

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

// Settings may change between two passes, by a reload.
type Settings struct {
	observe.Config

	TransitionPeriod         time.Duration
	MaxPodGracePeriodSeconds int32
	// MonitoringInterval is the time between passes that nothing woke.
	MonitoringInterval time.Duration
	// MemoryNotifications lets plugins watch the memory signals
	// (kernelMemcgNotification of the kubelet).
	MemoryNotifications bool
	// DryRun decides and logs, and kills no pod.
	DryRun   bool
	Pacing   Pacing
	RankVeto RankVeto
	// LocalStorageLimits has pods evicted that are over a limit of their own on
	// local storage (localStorageCapacityIsolation of the kubelet).
	LocalStorageLimits bool
	LocalRules         policy.LocalRules
	// ID tells this configuration from others, for records.
	ID string
	// PodLevelResources counts what is requested for a pod as a whole (the
	// kubelet's feature gate).
	PodLevelResources bool
}

func (s *Settings) asKubelet() bool { return s.Pacing == PacingKubelet }

// A ReclaimFunc runs a step of node-level reclaim in place of a plugin.
type ReclaimFunc = func(ctx context.Context) error

// Options configures a Loop. Fields that may be missing say so.
type Options struct {
	observe.Options

	Settings Settings
	// Pin starts a pass with the plugins that run now. Changed delivers a value
	// when their set has changed.
	Pin     func() *registry.Pin
	Changed <-chan struct{}
	Pods    pods.Source
	// Manifests, if not nil, tells at the start what is wrong with pod manifests,
	// which Pods would tell when pods are needed for the first time.
	Manifests func() []pods.Problem
	Killer    victim.Killer
	Recorder  Recorder
	Journal   Journal
	// After waits in AwaitCleanup. Other waits are by the real clock.
	After func(time.Duration) <-chan time.Time
	// BootNanos reads CLOCK_BOOTTIME. It may be missing if sample times are not checked.
	BootNanos func() int64
	// Reclaim has functions that stand in for steps of node-level reclaim, by name.
	Reclaim map[string]ReclaimFunc
	// SkipStepsBecause, if not empty, is why steps that Reclaim does not stand in for are
	// not run.
	SkipStepsBecause string
	// TellConditions sends an event about the node when a condition changes. A
	// kubelet does so itself.
	TellConditions bool
	// Holder, if not nil, names what has the most of a resource outside of all pods.
	Holder func(eviction.Signal) string
	// Conditions, if not nil, receives the node's conditions in each pass, before it acts. It
	// must not wait.
	Conditions func([]eviction.Condition)
	// Alive, if not nil, is called by the loop's own goroutine at each of its turns, of which there
	// is one in AliveEvery unless a pass takes longer. It must not wait.
	Alive      func()
	AliveEvery time.Duration
	// MinDeadline is the least deadline of a part of a pass.
	MinDeadline time.Duration
	// Records, if not nil, keeps what was decided and why.
	Records *recorder.Keeper
	// Explain fills in the Ranking of outcomes.
	Explain bool
	// OnRequest makes passes when Synchronize is called, and never else.
	OnRequest bool
	// Restored, if not zero, is what a former host on the same boot has left behind: kills to
	// finish first, and when it last saw conditions.
	Restored rundir.State
}
