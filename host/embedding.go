package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/node/fallback"
	"github.com/evictd/evictd/shared/eviction"
)

var errNotAnEmbedding = errors.New("only a manager of NewEmbedded can be started, a daemon's is run")

// embedding adapts the embedding program to the loop: its pods, its kills and its preemption.
type embedding struct {
	Embedding

	preemption *Preemption
	// active is nil until the manager is started.
	active    atomic.Pointer[ActivePodsFunc]
	cleanedUp PodCleanedUpFunc

	rules pods.Rules
	mu    sync.Mutex
	// listed and snapshot cache the last listing. A changed pod is a new object.
	listed   []*v1.Pod
	snapshot pods.Snapshot

	ended  chan struct{}
	failed error
}

// NewEmbedded returns the Manager of a program that embeds evictd in place of the kubelet's
// eviction manager. It locks the run directory and finds plugins, but starts none. The error lists
// every problem. A Manager that NewEmbedded returns must be started.
func NewEmbedded(e Embedding) (*Manager, error) {
	if err := errors.Join(
		required("KillPod", e.KillPod != nil), required("Recorder", e.Recorder != nil), required("Log", e.Log != nil), usable(e.Config),
	); err != nil {
		return nil, err
	}
	if e.Clock == nil {
		e.Clock = clock.RealClock{}
	}
	m := newManager(&e.Config, e.Version, e.Commit, e.Log)
	m.metrics.Also = e.Metrics
	m.recorder.next = e.Recorder
	m.embedded = &embedding{Embedding: e, ended: make(chan struct{}), rules: parts.Rules(&e.Config)}
	if err := m.openEmbedded(); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// usable validates c, all problems at once. With an embedding program the plugin directory may be
// empty.
func usable(c Config) error {
	c.PluginDir = cmp.Or(c.PluginDir, "/")
	return c.Validate()
}

func required(field string, given bool) error {
	if !given {
		return errors.New("host.Embedding: " + field + " is missing")
	}
	return nil
}

func (m *Manager) openEmbedded() error {
	c, e := m.config(), m.embedded
	o, err := m.open()
	if err != nil {
		return err
	}
	e.preemption = &Preemption{
		Pods: func() []*v1.Pod { return (*e.active.Load())() }, KillPod: e.KillPod, Recorder: embeddedRecorder{m.recorder}, Log: e.Log,
		Clock: e.Clock, Metrics: m.metrics, Config: m.config, records: m.records,
	}
	o.Pods, o.Killer, o.Journal = e, e, noJournal{}
	o.Now, o.After, o.Explain, o.MinDeadline = e.Clock.Now, e.Clock.After, e.Explain, e.MinDeadline
	o.Reclaim, o.SkipStepsBecause = e.Reclaim, e.SkipStepsBecause
	if e.MinDeadline == 0 { // otherwise time and figures are not those of this machine
		o.Fallback = fallback.New(m.facts(c))
		if m.stats != nil {
			o.SourceStands = observe.Forever
		}
	}
	m.loop = loop.New(o)
	return nil
}

// Start starts the plugins and makes a pass each monitoringInterval and whenever a plugin wakes the
// manager, until ctx ends; Wait waits for the end. With an interval of 0 only Synchronize makes
// passes. disks may be nil if Config names the layout of the filesystems or plugins find it out;
// with native figures they do, and disks is not called. Start is called once.
func (m *Manager) Start(ctx context.Context, disks DiskInfoProvider, active ActivePodsFunc, cleanedUp PodCleanedUpFunc, monitoringInterval time.Duration) error {
	e := m.embedded
	switch {
	case e == nil:
		return errNotAnEmbedding
	case active == nil || cleanedUp == nil:
		return errors.New("start: want a function for the active pods and one for pods that are cleaned up")
	case monitoringInterval < 0:
		return errors.New("start: want a monitoring interval of 0 or more, not " + monitoringInterval.String())
	}
	e.active.Store(&active)
	e.cleanedUp = cleanedUp
	m.disks = disks
	c := *m.config()
	c.MonitoringInterval.Duration = monitoringInterval
	m.current.Store(&c)
	m.loop.Settings.MonitoringInterval = monitoringInterval
	m.loop.OnRequest = monitoringInterval == 0
	go func() {
		defer close(e.ended)
		e.failed = m.Run(ctx)
	}()
	select {
	case <-m.supervisor.Started():
		return nil
	case <-e.ended:
		return errors.Join(e.failed, ctx.Err())
	}
}

// Wait returns after a started Manager has shut down completely, with its errors. It blocks forever
// if the Manager was not started.
func (m *Manager) Wait() error {
	if m.embedded == nil {
		return errNotAnEmbedding
	}
	<-m.embedded.ended
	return m.embedded.failed
}

// Synchronize makes one full pass and returns when everything it decided on is done, including
// reclaim and kills, like the kubelet's synchronize. The error says why the pass concluded nothing
// and wraps an error of DiskInfoProvider. It may be called at any time after Start, but returns an
// error when called from a function that a pass calls, such as KillPod or the Recorder.
func (m *Manager) Synchronize(ctx context.Context) (Pass, error) {
	pass, err := m.loop.Synchronize(ctx)
	if cause := m.layoutErr.Load(); err != nil && cause != nil && strings.Contains(err.Error(), (*cause).Error()) {
		err = because{err, *cause}
	}
	return pass, err
}

// because has the text of its first error and wraps cause as well.
type because struct {
	error

	cause error
}

// Unwrap returns both.
func (b because) Unwrap() []error { return []error{b.error, b.cause} }

// AwaitCleanup waits until the pods that a pass evicted are cleaned up. Like the kubelet it polls
// each second and gives up after half a minute. It returns an error only if ctx ends.
func (m *Manager) AwaitCleanup(ctx context.Context, p Pass) error { return m.loop.AwaitCleanup(ctx, p) }

// Admit decides whether pod may start under the conditions that the last pass reported. Without a
// condition every pod may. Otherwise critical pods may, and under memory pressure alone also pods
// that are not BestEffort or tolerate it. A condition of a custom signal counts like disk pressure:
// critical pods only. Admit reads a snapshot: it may be called at any time and never waits for a
// pass.
func (m *Manager) Admit(pod *v1.Pod) Admission {
	return Admit(pod, m.loop.Snapshot().Conditions, m.config())
}

// HandleAdmissionFailure tries to make room for a pod that was not admitted for
// reasons, as the kubelet's CriticalPodAdmissionHandler does, and returns the
// reasons that are left: with none and no error the pod can be admitted. It does
// something only for a critical pod that lacks nothing but resources, and then
// kills other pods, one after the other, with their own grace periods; a kill
// that fails is logged, and the pod counts as gone all the same. In a dry run
// no pod is killed, and the reasons stay. It is an error if all pods that may go
// are not enough, if ctx ends between two kills, and if the Manager is not an
// embedded one.
//
// Calls must not overlap, as admissions in the kubelet do not: each would count
// on the same pods. A call may overlap with passes. A pod that is just being
// evicted still holds what it requests and is a candidate here, and a pod that
// is being preempted is one for eviction. Either is then killed a second time,
// as KillPodFunc says; the second status stands. Waiting for the first kill to
// end would let a slow preemption hold up a hard eviction.
func (m *Manager) HandleAdmissionFailure(ctx context.Context, pod *v1.Pod, reasons []FailureReason) ([]FailureReason, error) {
	if lacks, left := shortages(pod, reasons); len(left) > 0 || len(lacks) == 0 {
		return left, nil
	}
	switch e := m.embedded; {
	case e == nil:
		return nil, errNotEmbedded
	case e.active.Load() == nil:
		return nil, errNotStarted
	default:
		return e.preemption.HandleAdmissionFailure(ctx, pod, reasons)
	}
}

// Active implements pods.Source.
func (e *embedding) Active(context.Context) (pods.Snapshot, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	active := (*e.active.Load())()
	if slices.Equal(active, e.listed) {
		return e.snapshot, nil
	}
	known := make(map[*v1.Pod]*pods.Pod, len(e.listed))
	for i, pod := range e.listed {
		known[pod] = &e.snapshot.Pods[i]
	}
	s := pods.Snapshot{Pods: make([]pods.Pod, len(active))}
	for i, pod := range active {
		if p, ok := known[pod]; ok {
			s.Pods[i] = *p
		} else {
			s.Pods[i] = pods.Pod{API: pod, Row: e.rules.Row(pod, containers(pod)), HasManifest: true}
		}
	}
	e.listed, e.snapshot = slices.Clone(active), s
	return s, nil
}

// containers returns the running containers in the status of pod, with their ids without the
// scheme.
func containers(pod *v1.Pod) []eviction.Container {
	var all []eviction.Container
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if _, id, ok := strings.Cut(statuses[i].ContainerID, "://"); ok && statuses[i].State.Running != nil {
				all = append(all, eviction.Container{Name: statuses[i].Name, ID: id})
			}
		}
	}
	return all
}

// Kill implements victim.Killer.
func (e *embedding) Kill(_ context.Context, v victim.Victim) error {
	pod, grace := v.Pod.API, v.GraceOverrideSeconds
	return e.KillPod(pod, true, &grace, func(status *v1.PodStatus) {
		victim.SetEvicted(status, pod.Generation, v.Message, !v.Limit, e.Clock.Now())
	})
}

// Finished implements victim.Killer.
func (e *embedding) Finished(_ context.Context, v victim.Victim) (bool, error) {
	return e.cleanedUp(v.Pod.API), nil
}

// CleanedUp implements victim.Killer: the program's function covers volumes too.
func (e *embedding) CleanedUp(ctx context.Context, v victim.Victim) (bool, error) {
	return e.Finished(ctx, v)
}

// noJournal saves nothing: an embedding program keeps its own state.
type noJournal struct{}

// SaveKill implements victim.Journal.
func (noJournal) SaveKill(victim.Kill) error { return nil }

// RemoveKill implements victim.Journal.
func (noJournal) RemoveKill(string) error { return nil }

// SaveConditions implements loop.Journal.
func (noJournal) SaveConditions(map[eviction.Condition]time.Time) error { return nil }
