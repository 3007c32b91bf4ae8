package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/cgroups"
	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/metrics"
	"github.com/evictd/evictd/host/internal/observe/fallback"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// passAllowance is what a pass may take on top of its interval before the host
// counts as stuck.
const passAllowance = 15 * time.Second

// Options is what a Manager is made of. All fields but the last are required.
type Options struct {
	Config Config
	// Version and Commit name the build.
	Version, Commit string
	Log             *slog.Logger
	// DroppedLogLines is how many lines of the log were dropped so far.
	DroppedLogLines func() uint64
}

// A Manager is the eviction manager of one node.
type Manager struct {
	version string
	log     *slog.Logger
	started time.Time
	current atomic.Pointer[Config]

	metrics    *metrics.Metrics
	recorder   *recorder
	dir        *rundir.Dir
	stats      *statsServer
	listener   net.Listener
	runtime    *grpc.ClientConn
	supervisor *supervisor.Supervisor
	cgroups    *cgroups.Watch
	loop       *loop.Loop
	// reloading is held by whoever tells the plugins something else.
	reloading chan struct{}
	// embedded and preemption are nil in a daemon.
	embedded   *embedding
	preemption *preemption
}

// New takes the run directory, listens and finds the plugins, and starts none of
// them. What it cannot have is an error, all of it at once. A Manager that was
// made must be run.
func New(o Options) (*Manager, error) {
	m := &Manager{
		version: o.Version, log: o.Log, started: time.Now(),
		metrics:  metrics.New(o.Version, o.Commit),
		recorder: &recorder{nodeName: o.Config.NodeName, log: o.Log}, reloading: make(chan struct{}, 1),
	}
	m.current.Store(&o.Config)
	if o.DroppedLogLines != nil {
		m.metrics.CountDroppedLogLines(o.DroppedLogLines)
	}
	if err := m.open(); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *Manager) open() error {
	c := m.config()
	thresholds, err := c.Thresholds()
	if err != nil {
		return err
	}
	var errs []error
	if m.runtime, err = criclient.Dial(c.RuntimeEndpoint); err != nil {
		errs = append(errs, err)
	}
	if m.listener, err = net.Listen("tcp", c.ListenAddress); err != nil {
		errs = append(errs, fmt.Errorf("listenAddress %q: %w", c.ListenAddress, err))
	}
	m.openCgroups()
	// Last, because it removes what a former host left behind.
	if m.dir, err = rundir.Open(c.RunDir); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if err := m.dir.Leftovers(); err != nil {
		m.log.Warn("something of former plugins is left, it is removed while evictd runs", "error", err)
	}
	errs = append(errs, m.openStats(nil, 0), m.openPlugins(nil))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	restored, err := m.dir.Load()
	if err != nil {
		m.log.Warn("part of the run directory is not used", "runDir", c.RunDir, "error", err)
	}
	mode, client := modes[c.Mode], runtimeapi.NewRuntimeServiceClient(m.runtime)
	source := mode.pods(c, client)
	o := m.loopOptions(settings(c, thresholds))
	o.Pods, o.Manifests = source, source.Problems
	o.Killer, o.Journal, o.Restored = mode.killer(c, client), m.dir, restored
	o.Now, o.After, o.BootNanos, o.TellConditions = time.Now, time.After, nodefs.BootNanos, true
	o.LastResort, o.SourceStands, o.CheckSampleTimes = fallback.New(m.facts(c)), c.Source == config.SourceSummary, true
	m.loop = loop.New(o)
	return nil
}

// loopOptions are what a loop has in a daemon and in another program alike.
func (m *Manager) loopOptions(s loop.Settings) loop.Options {
	o := loop.Options{
		Settings: s,
		Pin:      func() loop.Roster { return m.supervisor.Pin() },
		Changed:  m.supervisor.Changed(),
		Recorder: podRecorder{m.recorder}, Metrics: m.metrics, Log: m.log,
	}
	if m.stats != nil {
		o.Begin = m.stats.begin
	}
	return o
}

func (m *Manager) config() *Config { return m.current.Load() }

// Run starts the plugins, makes passes and serves until ctx ends. Then it takes
// no more decisions, gives kills in flight a few seconds, ends the plugins and
// returns when nothing is left.
func (m *Manager) Run(ctx context.Context) error {
	// The plugins and the server outlive the loop, which uses them to its end.
	around, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var failed error
	supervised, served := make(chan struct{}), make(chan struct{})
	m.cgroups.Begin(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	go func() {
		defer close(supervised)
		failed = m.supervisor.Run(around)
	}()
	go func() {
		defer close(served)
		if m.listener != nil {
			m.serve(around, m.listener)
		}
	}()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		m.keepRunDir(around)
	}()
	select {
	case <-m.supervisor.Started():
		m.tellReady(ctx)
		if !m.loop.OnRequest {
			watching.Go(func() { m.cgroups.Run(ctx) })
		}
		m.loop.Run(ctx)
	case <-ctx.Done():
	case <-supervised:
	}
	end()
	<-kept
	<-served
	<-supervised
	return errors.Join(failed, m.close()) //nolint:contextcheck // ctx has ended
}

func (m *Manager) tellReady(ctx context.Context) {
	address := ""
	if m.listener != nil {
		m.tellRuntime(ctx)
		address = m.listener.Addr().String()
	}
	m.log.Info("evictd ready", "version", m.version, "listenAddress", address, "plugins", m.runningPlugins(), "dryRun", m.config().DryRun)
}

// tellRuntime says at the start what an absent runtime would otherwise tell at
// the first eviction only.
func (m *Manager) tellRuntime(ctx context.Context) {
	version, err := criclient.Probe(ctx, runtimeapi.NewRuntimeServiceClient(m.runtime))
	if err != nil {
		m.log.Error("container runtime does not answer, no pod can be evicted until it does", "runtimeEndpoint", m.config().RuntimeEndpoint, "error", err)
		return
	}
	m.log.Info("container runtime answers", "runtimeEndpoint", m.config().RuntimeEndpoint, "runtime", version)
}

func (m *Manager) runningPlugins() []string {
	var names []string
	for _, s := range m.supervisor.Status() {
		if s.State == supervisor.Running {
			names = append(names, s.Name)
		}
	}
	return names
}

// Reload puts a new configuration in force, whole or not at all. Timers of
// thresholds that stay are kept.
//
// It waits for the pass that is under way. ctx limits how long it waits for another
// Reload and for plugins to take their new configuration; after that it cannot be
// abandoned any more. It is an error to call it from a function that a pass calls.
func (m *Manager) Reload(ctx context.Context, c Config) (err error) {
	defer func() { m.metrics.Reloaded(err) }()
	if err := m.loop.Reentered(); err != nil {
		return err
	}
	select {
	case m.reloading <- struct{}{}:
		defer func() { <-m.reloading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.embedded != nil { // the program's, not the configuration's
		c.MonitoringInterval = m.config().MonitoringInterval
	}
	if err := config.CheckReload(*m.config(), c); err != nil {
		return err
	}
	thresholds, err := c.Thresholds()
	if err != nil {
		return err
	}
	if l := eviction.LayoutNamed(m.loop.Snapshot().Layout); l != 0 {
		if err := policy.Split(c.Assigned, l); err != nil {
			return err
		}
	}
	if err := m.supervisor.Reconfigure(ctx, m.facts(&c), pluginSettings(&c)); err != nil {
		return err
	}
	m.supervisor.Reassign(assignment(&c))
	if err := m.loop.Apply(settings(&c, thresholds)); err != nil { // not abandoned half way when ctx ends
		return err
	}
	m.current.Store(&c)
	return nil
}

// IsUnderMemoryPressure reports whether the node is under memory pressure, as
// far as the last pass knew. It may be called at any time, like its siblings. What
// own signals raise changes none of them.
func (m *Manager) IsUnderMemoryPressure() bool { return m.loop.Under(eviction.MemoryPressure) }

// IsUnderDiskPressure reports whether the node is under disk pressure.
func (m *Manager) IsUnderDiskPressure() bool { return m.loop.Under(eviction.DiskPressure) }

// IsUnderPIDPressure reports whether the node is under process id pressure.
func (m *Manager) IsUnderPIDPressure() bool { return m.loop.Under(eviction.PIDPressure) }

// Conditions returns the conditions that the node is under as far as the last pass
// knew, by name: the kubelet's and those of plugins' own signals, which a kubelet
// does not know. A daemon tells of their changes by events on the node, an embedding
// program compares them after a pass. It may be called at any time.
func (m *Manager) Conditions() []eviction.Condition {
	return slices.Clone(m.loop.Snapshot().Conditions)
}

func (m *Manager) close() error {
	var errs []error
	if m.listener != nil {
		if err := m.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if m.runtime != nil {
		errs = append(errs, m.runtime.Close())
	}
	errs = append(errs, m.stats.close())
	if m.dir != nil {
		errs = append(errs, m.dir.Close())
	}
	return errors.Join(errs...)
}
