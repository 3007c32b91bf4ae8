package host

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/node/cgroups"
	"github.com/evictd/evictd/host/internal/node/fallback"
	"github.com/evictd/evictd/host/internal/node/kernelkills"
	"github.com/evictd/evictd/host/internal/node/rundir"
	"github.com/evictd/evictd/host/internal/node/summary"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/pluginhost/meters"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/host/internal/record/recorder"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/shared/eviction"
)

// A Manager is what a Daemon and an Embedded have in common: plugins, passes, records and status.
// Each of them has one.
type Manager struct {
	version string
	log     *slog.Logger
	started time.Time
	current atomic.Pointer[Config]
	owner   owner

	metrics    *metrics.Metrics
	recorder   *eventRecorder
	dir        *rundir.Dir
	summary    *summary.Provider
	pods       pods.Source
	supervisor *supervisor.Supervisor
	cgroups    *cgroups.Watch
	readers    readers
	// records is nil if no records are kept.
	records *recorder.Keeper
	loop    *loop.Loop
	// ranked is held while pods are ranked for a request.
	ranked chan struct{}
	// reloading is held while plugins receive new settings.
	reloading chan struct{}
}

// An owner is the part of a Daemon or an Embedded that its Manager calls.
type owner struct {
	// thresholds returns the thresholds in force with c.
	thresholds func(c *Config) ([]policy.Threshold, error)
	// adapt checks a configuration that replaces now, and keeps what the owner itself decides.
	adapt func(ctx context.Context, now, next Config) (Config, error)
	// reloaded is called once another configuration is in force.
	reloaded func()
	// unhealthy returns why the owner cannot do its part.
	unhealthy func() []error
	// inspected returns the problems of the node that last.
	inspected func() []inspect.Lasting
}

func newManager(of owner, c *Config, version, commit string, log *slog.Logger) *Manager {
	m := &Manager{
		owner: of, version: version, log: log, started: time.Now(), metrics: metrics.New(version, commit),
		recorder: &eventRecorder{nodeName: c.NodeName, log: log}, reloading: make(chan struct{}, 1),
		ranked: make(chan struct{}, 1),
	}
	m.metrics.Pods.Show(int(c.PodMetrics))
	m.current.Store(c)
	return m
}

// sources says where a Manager's figures and plugins come from.
type sources struct {
	// runtime is asked for the cgroup driver. It may be nil.
	runtime *grpc.ClientConn
	// cgroups: the cgroups of running pods are looked for.
	cgroups bool
	// summary holds the kubelet's summaries. It may be nil.
	summary *summary.Source
	// wrapSummary changes their plugin. It may be nil.
	wrapSummary func(*eviction.Plugin)
	// layout returns the layout of the filesystems for it, and with await each pass waits for
	// its summary, which may take an embedding program longer than a plugin's deadline.
	layout func(context.Context) *eviction.LayoutReport
	await  bool
	// sampled: figures of the node are recorded between passes.
	sampled bool
	// timeouts bounds calls to plugins. expectBuiltins: a built-in plugin that is missing is a fault,
	// and does not switch its signals off.
	timeouts       client.Timeouts
	expectBuiltins bool
	// plugins run in this process.
	plugins map[string]eviction.Plugin
}

// open opens what is common. It takes the run directory last of the exclusive resources, because
// that removes what a former host left behind. It returns the loop options for all.
func (m *Manager) open(from sources) (loop.Options, error) {
	c := m.config()
	thresholds, err := m.owner.thresholds(c)
	if err != nil {
		return loop.Options{}, err
	}
	watch := cgroups.Options{Tell: m.tellPlugins, Tally: m.metrics.PodsMisplaced, Log: m.log}
	if from.cgroups {
		watch.Running = func(ctx context.Context) ([]cgroups.Pod, error) { return running(ctx, m.pods, m.metrics) }
	}
	m.cgroups = parts.WatchCgroups(c, from.runtime, watch)
	if m.dir, err = rundir.Open(c.RunDir); err != nil {
		return loop.Options{}, err
	}
	inside := maps.Clone(from.plugins)
	if from.summary != nil {
		m.summary = summary.New(from.summary, c.Node(), func() bool { return m.config().SubtractHugePages() })
		if inside == nil {
			inside = map[string]eviction.Plugin{}
		}
		p := m.summary.Plugin()
		if from.wrapSummary != nil {
			from.wrapSummary(&p)
		}
		inside[registry.Summary] = p
	}
	o := supervisor.Options{
		Dir: c.PluginDir, DirOptional: len(from.plugins) > 0, Inside: inside, SocketRoot: m.dir.Plugins(), Host: eviction.Host{Version: m.version}, Timeouts: from.timeouts, ExpectBuiltins: from.expectBuiltins,
		Node: m.facts(c), Settings: parts.PluginSettings(c), Assign: c.Assignment(), Log: m.log, Metrics: pluginMarks{m.metrics, m, map[string]bool{}},
	}
	m.supervisor, err = supervisor.New(o)
	if err != nil {
		return loop.Options{}, err
	}
	m.metrics.ShowPlugins(meters.New(meters.Options{Pin: m.supervisor.Pin, Own: metrics.Own, Failed: m.metrics.CallFailed, Log: m.log}))
	return m.loopOptions(from, settings(c, thresholds)), nil
}

func (m *Manager) loopOptions(from sources, s loop.Settings) loop.Options {
	o := loop.Options{
		Settings: s,
		Pin:      m.supervisor.Pin,
		Changed:  m.supervisor.Changed(),
		Recorder: m.recorder,
		Metrics:  m.metrics,
		PodUsage: m.metrics.Pods.Record,
		Options:  observe.Options{Log: m.log},
	}
	if c := m.config(); c.StateDir != "" {
		_, owner := rundir.ID(m.dir.Path())
		records := recorder.Options{
			Node: c.NodeName, Evictd: m.version, Count: m.metrics.Recorded, Log: m.log,
			Store: store.New(store.Options{Dir: config.RecordsDir(c.StateDir), MaxBytes: c.RecordsMaxSize.Value(), MaxAge: c.RecordsMaxAge.Duration, Owner: owner}),
		}
		killed := &kernelKills{m: m, watch: kernelkills.New(c.Node(), c.CgroupRoot)}
		if from.cgroups {
			records.Kernel = killed
			for _, scope := range decision.Scopes {
				m.metrics.KernelKilled(scope, 0)
			}
		}
		if from.sampled { // figures of other sources are recorded in passes only
			reader := m.readers.open(m.facts(c))
			records.Samplers = samplers(reader, c)
			records.Usage = podUsage(reader, killed.active)
		}
		m.records = recorder.New(records)
		o.Records = m.records
	}
	if m.summary != nil {
		o.Begin = func(ctx context.Context, at eviction.PassView, asked bool) {
			var layout *eviction.LayoutReport
			if asked {
				layout = from.layout(ctx)
			}
			m.summary.Begin(ctx, at, layout, from.await)
		}
	}
	return o
}

func settings(c *Config, thresholds []policy.Threshold) loop.Settings {
	return loop.Settings{
		Config:                   observe.Config{Thresholds: thresholds, Assigned: c.Assigned, LayoutOnce: c.Layout == config.LayoutKubelet},
		TransitionPeriod:         c.EvictionPressureTransitionPeriod.Duration,
		MaxPodGracePeriodSeconds: c.EvictionMaxPodGracePeriod,
		MonitoringInterval:       c.MonitoringInterval.Duration,
		MemoryNotifications:      c.KernelMemcgNotification,
		DryRun:                   c.DryRun,
		Pacing:                   loop.Pacing(c.Pacing),
		RankVeto:                 loop.RankVeto(c.RankVeto),
		LocalStorageLimits:       c.LocalStorageCapacityIsolation,
		LocalRules:               policy.LocalRules{Sidecars: c.Since(config.Kubernetes137), MemoryVolumes: c.Feature(config.FeatureMemoryVolumes)},
		PodLevelResources:        c.Feature(config.FeaturePodLevelResources),
		ID:                       c.ID(),
	}
}

// concluded reports whether any pass has concluded something.
func (m *Manager) concluded() bool { return !m.loop.Snapshot().Time.IsZero() }

func (m *Manager) config() *Config { return m.current.Load() }

// facts returns the node facts that plugins receive.
func (m *Manager) facts(c *Config) eviction.NodeFacts {
	return parts.NodeFacts(c, m.cgroups.Driver())
}

// readers are those of the node, which follow the configuration.
type readers []*fallback.Reader

func (all *readers) open(facts eviction.NodeFacts) *fallback.Reader {
	r := fallback.New(facts)
	*all = append(*all, r)
	return r
}

// tasks are the parts of an owner that run with its Manager.
type tasks struct {
	// begin is called first, with the context that ends after the loop.
	begin func(around context.Context)
	// beside run from before the plugins start until after the loop has ended.
	beside []func(around context.Context)
	// passing run while passes are made, after the plugins have started. ready is called before the
	// first pass, flush after the last one.
	passing []func(context.Context)
	ready   func()
	flush   func(around context.Context)
}

// run starts the plugins and makes passes until ctx ends. Then it stops deciding, gives kills in
// flight a few seconds, stops the plugins and returns when everything has ended.
func (m *Manager) run(ctx context.Context, t tasks) (failed error) {
	// The plugins and the server outlive the loop, which uses them until it ends.
	around, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	t.begin(around)
	supervised := make(chan struct{})
	m.cgroups.Begin(ctx)
	m.supervisor.SetNode(m.facts(m.config()))
	var watching, serving sync.WaitGroup
	defer watching.Wait()
	go func() {
		defer close(supervised)
		failed = m.supervisor.Run(around)
	}()
	serving.Go(func() { m.records.Run(around) })
	for _, run := range t.beside {
		serving.Go(func() { run(around) })
	}
	select {
	case <-m.supervisor.Started():
		t.ready()
		for _, run := range t.passing {
			watching.Go(func() { run(ctx) })
		}
		m.loop.Run(ctx)
		t.flush(around)
	case <-ctx.Done():
		end()
		m.loop.Run(around)
	case <-supervised:
		end()
		m.loop.Run(around)
	}
	end()
	serving.Wait()
	<-supervised
	return failed
}

func (m *Manager) logReady(healthz, metrics string) {
	var plugins []string
	for _, s := range m.supervisor.Status() {
		if s.State == supervisor.Running {
			plugins = append(plugins, s.Name)
		}
	}
	m.log.Info("evictd ready", "version", m.version, "healthz", healthz, "metrics", metrics, "plugins", plugins, "compatibility", m.config().Kubernetes(), "dryRun", m.config().DryRun)
}

// ReloadFrom reloads the configuration that load returns. A load error counts as a failed reload.
func (m *Manager) ReloadFrom(ctx context.Context, load func() (Config, error)) (Config, error) {
	c, err := load()
	if err != nil {
		m.metrics.Reloaded(err)
		return Config{}, err
	}
	return c, m.Reload(ctx, c)
}

// Reload puts a new configuration in force, completely or not at all. Unchanged thresholds keep
// their timers.
//
// It waits for a pass that is under way. ctx limits how long it waits for another Reload and for
// plugins to accept their new configuration; after that it cannot be cancelled. It returns an error
// when called from a function that a pass calls. The monitoring interval of an Embedded stays that
// of Start.
func (m *Manager) Reload(ctx context.Context, c Config) (err error) {
	defer func() { m.metrics.Reloaded(err) }()
	return m.reload(ctx, func(now Config) Config {
		c.KubeletVersion = now.KubeletVersion
		return c
	})
}

// reload is like Reload with a change of the configuration in force.
func (m *Manager) reload(ctx context.Context, change func(now Config) Config) error {
	if err := m.loop.Reentered(); err != nil {
		return err
	}
	end, err := m.beginReload(ctx)
	if err != nil {
		return err
	}
	defer end()
	c, wrong := m.owner.adapt(ctx, *m.config(), change(*m.config()))
	if err := errors.Join(wrong, config.CheckReload(*m.config(), c)); err != nil {
		return err
	}
	thresholds, err := m.owner.thresholds(&c)
	if err != nil {
		return err
	}
	if l := eviction.LayoutNamed(m.loop.Snapshot().Layout); l != 0 {
		if err := policy.Split(c.Assigned, l); err != nil {
			return err
		}
	}
	if err := m.supervisor.Reconfigure(ctx, m.facts(&c), parts.PluginSettings(&c)); err != nil {
		return err
	}
	m.supervisor.Reassign(c.Assignment())
	if err := m.loop.Apply(settings(&c, thresholds)); err != nil { // not cancelled half way when ctx ends
		return err
	}
	for _, r := range m.readers {
		r.SetMemoryFigure(c.Memory())
	}
	m.metrics.Pods.Show(int(c.PodMetrics))
	m.current.Store(&c)
	m.owner.reloaded()
	return nil
}

// tellPlugins reconfigures the plugins after the known node facts have changed.
func (m *Manager) tellPlugins(ctx context.Context, _ string) error {
	end, err := m.beginReload(ctx)
	if err != nil {
		return err
	}
	defer end()
	c := m.config()
	return m.supervisor.Reconfigure(ctx, m.facts(c), parts.PluginSettings(c))
}

// beginReload waits for its turn to send plugins new settings. The caller must call end.
func (m *Manager) beginReload(ctx context.Context) (end func(), err error) {
	select {
	case m.reloading <- struct{}{}:
		return func() { <-m.reloading }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// IsUnderMemoryPressure reports whether the node was under memory pressure in the last pass. It may
// be called at any time, like the methods below. Custom signals do not affect them.
func (m *Manager) IsUnderMemoryPressure() bool { return m.loop.Under(eviction.MemoryPressure) }

// IsUnderDiskPressure reports whether the node is under disk pressure.
func (m *Manager) IsUnderDiskPressure() bool { return m.loop.Under(eviction.DiskPressure) }

// IsUnderPIDPressure reports whether the node is under process id pressure.
func (m *Manager) IsUnderPIDPressure() bool { return m.loop.Under(eviction.PIDPressure) }

// Conditions returns the node's conditions as of the last pass, by name: the kubelet's and those of
// custom signals, which a kubelet does not know. A daemon reports their changes as events on the
// node; an embedding program compares them after a pass. It may be called at any time.
func (m *Manager) Conditions() []eviction.Condition {
	return slices.Clone(m.loop.Snapshot().Conditions)
}

func (m *Manager) close() error {
	//nolint:forbidigo // there is no caller's context at the end, and Close limits itself
	err := m.summary.Close(context.Background())
	if m.dir != nil {
		err = errors.Join(err, m.dir.Close())
	}
	return err
}

// running lists the running pods and counts those without a manifest.
func running(ctx context.Context, source pods.Source, m *metrics.Metrics) ([]cgroups.Pod, error) {
	active, err := source.Active(ctx)
	if err != nil {
		return nil, err
	}
	active = active.Rechecked(ctx)
	var out []cgroups.Pod
	unmanaged := 0
	for _, p := range active.Pods {
		if !p.HasManifest {
			unmanaged++
		}
		if p.Row.Running {
			out = append(out, cgroups.Pod{UID: p.Row.UID, Name: p.String(), QoSClass: string(p.Row.QoSClass), Containers: p.ContainerIDs})
		}
	}
	m.PodsUnmanaged(unmanaged)
	return out, nil
}

// namedLayout returns the layout that the configuration names, nil for none.
func namedLayout(c *Config) *eviction.LayoutReport {
	l := eviction.LayoutNamed(c.Summary.Layout)
	if l == 0 {
		return nil
	}
	return &eviction.LayoutReport{ImageFs: l != eviction.LayoutShared, ContainerFs: l == eviction.LayoutContainerFs}
}
