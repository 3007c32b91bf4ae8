package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/node/summary"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/shared/eviction"
)

var errNotStarted = errors.New("preemption: the manager was not started, it does not know the pods of the node")

// An Embedded is the eviction manager of a program that has the pods, such as a kubelet.
type Embedded struct {
	*Manager

	given   Embedding
	program program
	// disks may be nil: then the configuration names the layout. layoutErr is the last layout error
	// of disks, nil after a success.
	disks      DiskInfoProvider
	layoutErr  atomic.Pointer[error]
	preemption *Preemption

	ended  chan struct{}
	failed error
}

// NewEmbedded returns the manager of a program that embeds evictd in place of the kubelet's
// eviction manager. It locks the run directory and finds plugins, but starts none. The error lists
// every problem. An Embedded that NewEmbedded returns must be started.
func NewEmbedded(given Embedding) (*Embedded, error) {
	if err := errors.Join(
		required("KillPod", given.KillPod != nil), required("Recorder", given.Recorder != nil), required("Log", given.Log != nil), usable(given.Config),
	); err != nil {
		return nil, err
	}
	if given.Clock == nil {
		given.Clock = clock.RealClock{}
	}
	given.Config.MonitoringInterval.Duration = 0 // until Start sets it
	if given.Summary != nil {
		given.Config.Source = config.SourceSummary
	}
	e := &Embedded{given: given, program: program{kill: given.KillPod, now: given.Clock.Now, rules: parts.Rules(&given.Config)}, ended: make(chan struct{})}
	e.Manager = newManager(owner{
		thresholds: e.given.inForce,
		adapt: func(_ context.Context, now, next Config) (Config, error) {
			err := usable(next)
			next.MonitoringInterval, next.Source = now.MonitoringInterval, now.Source
			return next, err
		},
		reloaded: func() {}, unhealthy: func() []error { return nil }, inspected: func() []inspect.Lasting { return nil },
	}, &given.Config, given.Version, given.Commit, given.Log)
	e.metrics.Also, e.recorder.next = given.Metrics, given.Recorder
	if err := e.open(); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
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

func (e *Embedded) open() error {
	from := sources{
		cgroups: e.given.Summary == nil, // which has the stats of pods
		layout:  e.layout, await: e.given.Summary != nil, plugins: e.given.Plugins, wrapSummary: e.given.WrapSummary,
		expectBuiltins: !e.given.Simulated, // a signal of another program is not switched off by removing a file
	}
	slowest := time.Duration(0)
	if e.given.Simulated {
		slowest = loop.SimulatedDeadline
	}
	from.timeouts = client.Timeouts{}.AtLeast(slowest)
	var err error
	switch {
	case e.given.Summary != nil:
		from.summary = summary.FromFunc(e.given.Summary, max(summary.DefaultTimeout, slowest))
	case e.config().UsesSummary():
		from.summary, err = summary.Open(e.config().Summary)
	}
	if err != nil {
		return err
	}
	o, err := e.Manager.open(from)
	if err != nil {
		return err
	}
	e.preemption = &Preemption{
		Pods: func() []*v1.Pod { return (*e.program.active.Load())() }, KillPod: e.given.KillPod, Recorder: embeddedRecorder{e.recorder}, Log: e.log,
		Clock: e.given.Clock, Metrics: e.metrics, Config: e.config, records: e.records,
	}
	o.Pods, o.Killer, o.Journal = &e.program, &e.program, noJournal{}
	o.Now, o.After, o.Explain, o.Simulated = e.given.Clock.Now, e.given.Clock.After, e.given.Explain, e.given.Simulated
	o.Reclaim, o.SkipStepsBecause = e.given.Reclaim, e.given.SkipStepsBecause
	if !e.given.Simulated {
		o.Fallback = e.readers.open(e.facts(e.config()))
	}
	if from.summary != nil {
		o.SourceStands = observe.Forever
	}
	e.pods, e.loop = o.Pods, loop.New(o)
	return nil
}

// layout returns the layout from the program, or from the configuration.
func (e *Embedded) layout(ctx context.Context) *eviction.LayoutReport {
	if e.disks != nil {
		return askLayout(ctx, e.disks, &e.layoutErr)
	}
	return namedLayout(e.config())
}

// inForce returns the thresholds in force: those of c, unless the program gives its own for the
// kubelet's signals.
func (e *Embedding) inForce(c *Config) ([]policy.Threshold, error) {
	all, err := c.Thresholds()
	if e.Thresholds == nil || err != nil {
		return all, err
	}
	custom := slices.DeleteFunc(all, func(t policy.Threshold) bool { _, builtin := eviction.Builtin(t.Signal); return builtin })
	given := make([]policy.Threshold, len(e.Thresholds))
	var errs []error
	for i, t := range e.Thresholds {
		if _, builtin := eviction.Builtin(t.Signal); !builtin {
			errs = append(errs, fmt.Errorf("host.Embedding: Thresholds[%d].Signal: %q: want one of the kubelet's, %q; others are for Config", i, t.Signal, eviction.BuiltinSignals()))
		}
		given[i] = policy.Threshold{Signal: t.Signal, Value: t.Value.policy(), GracePeriod: t.GracePeriod}
		if t.MinReclaim != nil {
			least := t.MinReclaim.policy()
			given[i].MinReclaim = &least
		}
	}
	return append(given, custom...), errors.Join(errs...)
}

func (v ThresholdValue) policy() policy.Value {
	if v.Quantity == nil {
		return policy.Value{Percentage: v.Percentage, IsPercentage: true}
	}
	return policy.Value{Quantity: v.Quantity.DeepCopy()}
}

// Start starts the plugins and makes a pass each monitoringInterval and whenever a plugin wakes the
// manager, until ctx ends; Wait waits for the end. With an interval of 0 only Synchronize makes
// passes. disks may be nil if Config names the layout of the filesystems or plugins find it out;
// with native figures they do, and disks is not called. Start is called once.
func (e *Embedded) Start(ctx context.Context, disks DiskInfoProvider, active ActivePodsFunc, cleanedUp PodCleanedUpFunc, monitoringInterval time.Duration) error {
	switch {
	case active == nil || cleanedUp == nil:
		return errors.New("start: want a function for the active pods and one for pods that are cleaned up")
	case monitoringInterval < 0:
		return errors.New("start: want a monitoring interval of 0 or more, not " + monitoringInterval.String())
	}
	e.program.cleanedUp, e.disks = cleanedUp, disks
	e.program.active.Store(&active)
	t := tasks{begin: func(context.Context) {}, ready: func() { e.logReady("", "") }, flush: func(context.Context) {}}
	if monitoringInterval > 0 {
		t.passing = []func(context.Context){e.cgroups.Run}
	}
	go func() {
		defer close(e.ended)
		e.failed = errors.Join(e.run(ctx, t), e.close()) //nolint:contextcheck // ctx has ended
	}()
	select {
	case <-e.supervisor.Started():
		if monitoringInterval == 0 || e.setInterval(ctx, monitoringInterval) == nil {
			return nil
		}
		<-e.ended // which is the only error
	case <-e.ended:
	}
	return errors.Join(e.failed, ctx.Err())
}

// setInterval begins passes that are not requested.
func (e *Embedded) setInterval(ctx context.Context, interval time.Duration) error {
	end, err := e.beginReload(ctx)
	if err != nil {
		return err
	}
	defer end()
	c := *e.config()
	c.MonitoringInterval.Duration = interval
	thresholds, err := e.given.inForce(&c)
	if err != nil {
		return err
	}
	e.current.Store(&c)
	return e.loop.Apply(settings(&c, thresholds))
}

// Wait returns after a started Embedded has shut down completely, with its errors. It blocks
// forever if the Embedded was not started.
func (e *Embedded) Wait() error {
	<-e.ended
	return e.failed
}

// Synchronize makes one full pass and returns when everything it decided on is done, including
// reclaim and kills, like the kubelet's synchronize. The error says why the pass concluded nothing
// and wraps an error of DiskInfoProvider. It may be called at any time after Start, but returns an
// error when called from a function that a pass calls, such as KillPod or the Recorder.
func (e *Embedded) Synchronize(ctx context.Context) (Pass, error) {
	pass, err := e.loop.Synchronize(ctx)
	if cause := e.layoutErr.Load(); err != nil && cause != nil && errors.Is(err, observe.ErrNoLayout) {
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
func (e *Embedded) AwaitCleanup(ctx context.Context, p Pass) error {
	return e.loop.AwaitCleanup(ctx, p)
}

// Admit decides whether pod may start under the conditions that the last pass reported. Without a
// condition every pod may. Otherwise critical pods may, and under memory pressure alone also pods
// that are not BestEffort or tolerate it. A condition of a custom signal counts like disk pressure:
// critical pods only. Admit reads a snapshot: it may be called at any time and never waits for a
// pass.
func (e *Embedded) Admit(pod *v1.Pod) Admission {
	return Admit(pod, e.loop.Snapshot().Conditions, e.config())
}

// HandleAdmissionFailure tries to make room for a pod that was not admitted for
// reasons, as the kubelet's CriticalPodAdmissionHandler does, and returns the
// reasons that are left: with none and no error the pod can be admitted. It does
// something only for a critical pod that lacks nothing but resources, and then
// kills other pods, one after the other, with their own grace periods; a kill
// that fails is logged, and the pod counts as gone all the same. In a dry run
// no pod is killed, and the reasons stay. It is an error if all pods that may go
// are not enough, and if ctx ends between two kills.
//
// Calls must not overlap, as admissions in the kubelet do not: each would count
// on the same pods. A call may overlap with passes. A pod that is just being
// evicted still holds what it requests and is a candidate here, and a pod that
// is being preempted is one for eviction. Either is then killed a second time,
// as KillPodFunc says; the second status stands. Waiting for the first kill to
// end would let a slow preemption hold up a hard eviction.
func (e *Embedded) HandleAdmissionFailure(ctx context.Context, pod *v1.Pod, reasons []FailureReason) ([]FailureReason, error) {
	if lacks, left := shortages(pod, reasons); len(left) > 0 || len(lacks) == 0 {
		return left, nil
	}
	if e.program.active.Load() == nil {
		return nil, errNotStarted
	}
	return e.preemption.HandleAdmissionFailure(ctx, pod, reasons)
}

// A program adapts an embedding program to the loop: its pods and its kills.
type program struct {
	kill  KillPodFunc
	now   func() time.Time
	rules pods.Rules
	// active is nil until the manager is started, which sets cleanedUp before.
	active    atomic.Pointer[ActivePodsFunc]
	cleanedUp PodCleanedUpFunc

	mu sync.Mutex
	// listed and snapshot cache the last listing. A changed pod is a new object.
	listed   []*v1.Pod
	snapshot pods.Snapshot
}

// Active implements pods.Source.
func (p *program) Active(context.Context) (pods.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	active := (*p.active.Load())()
	if slices.Equal(active, p.listed) {
		return p.snapshot, nil
	}
	known := make(map[*v1.Pod]*pods.Pod, len(p.listed))
	for i, pod := range p.listed {
		known[pod] = &p.snapshot.Pods[i]
	}
	s := pods.Snapshot{Pods: make([]pods.Pod, len(active))}
	for i, pod := range active {
		if k, ok := known[pod]; ok {
			s.Pods[i] = *k
		} else {
			s.Pods[i] = pods.Pod{API: pod, Row: p.rules.Row(pod, containers(pod)), HasManifest: true}
		}
	}
	p.listed, p.snapshot = slices.Clone(active), s
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
func (p *program) Kill(_ context.Context, v victim.Victim) error {
	pod, grace := v.Pod.API, v.GraceOverrideSeconds
	return p.kill(pod, true, &grace, func(status *v1.PodStatus) {
		victim.SetEvicted(status, pod.Generation, v.Message, !v.Limit, p.now())
	})
}

// Finished implements victim.Killer.
func (p *program) Finished(_ context.Context, v victim.Victim) (bool, error) {
	return p.cleanedUp(v.Pod.API), nil
}

// CleanedUp implements victim.Killer: the program's function covers volumes too.
func (p *program) CleanedUp(ctx context.Context, v victim.Victim) (bool, error) {
	return p.Finished(ctx, v)
}

// noJournal saves nothing: an embedding program keeps its own state.
type noJournal struct{}

// SaveKill implements victim.Journal.
func (noJournal) SaveKill(victim.Kill) error { return nil }

// RemoveKill implements victim.Journal.
func (noJournal) RemoveKill(string) error { return nil }

// SaveOwed implements loop.Journal.
func (noJournal) SaveOwed([]policy.Owed) error { return nil }

// SaveConditions implements loop.Journal.
func (noJournal) SaveConditions(map[eviction.Condition]time.Time) error { return nil }

// layoutDeadline bounds the query for the layout of the filesystems.
const layoutDeadline = 5 * time.Second

// askLayout asks the embedding program for the layout, like the kubelet's eviction manager. It
// stores the error in cause, because plugins receive only its text.
func askLayout(ctx context.Context, disks DiskInfoProvider, cause *atomic.Pointer[error]) *eviction.LayoutReport {
	ctx, cancel := context.WithTimeout(ctx, layoutDeadline)
	defer cancel()
	dedicated, err := disks.HasDedicatedImageFs(ctx)
	if err != nil {
		cause.Store(&err)
		return &eviction.LayoutReport{ImageFsErr: textOf(err)}
	}
	cause.Store(nil)
	split, err := disks.HasDedicatedContainerFs(ctx)
	if err != nil {
		return &eviction.LayoutReport{ImageFs: dedicated, ContainerFsErr: textOf(err)}
	}
	return &eviction.LayoutReport{ImageFs: dedicated, ContainerFs: dedicated && split}
}

// textOf returns the error's text, never empty: an empty text would mean no error.
func textOf(err error) string {
	if text := err.Error(); text != "" {
		return text
	}
	return "error without a text"
}
