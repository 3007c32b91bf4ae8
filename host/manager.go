package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/actuate"
	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/metrics"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/shared/eviction"
)

// passAllowance is what a pass may take on top of its interval before the host
// counts as stuck.
const passAllowance = 15 * time.Second

// Options is what a Manager is made of. All fields are required.
type Options struct {
	Config Config
	// Version and Commit name the build.
	Version, Commit string
	Log             *slog.Logger
}

// A Manager is the eviction manager of one node.
type Manager struct {
	version string
	log     *slog.Logger
	started time.Time
	current atomic.Pointer[Config]

	metrics    *metrics.Metrics
	recorder   *logRecorder
	dir        *rundir.Dir
	listener   net.Listener
	runtime    *grpc.ClientConn
	supervisor *supervisor.Supervisor
	loop       *loop.Loop
	// preemption is nil in a daemon.
	preemption *preemption
}

// New takes the run directory, listens and finds the plugins, and starts none of
// them. What it cannot have is an error, all of it at once. A Manager that was
// made must be run.
func New(o Options) (*Manager, error) {
	m := &Manager{
		version: o.Version, log: o.Log, started: time.Now(),
		metrics:  metrics.New(o.Version, o.Commit),
		recorder: &logRecorder{nodeName: o.Config.NodeName, log: o.Log},
	}
	m.current.Store(&o.Config)
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
	if m.runtime, err = pods.Dial(c.RuntimeEndpoint); err != nil {
		errs = append(errs, err)
	}
	if m.listener, err = net.Listen("tcp", c.ListenAddress); err != nil {
		errs = append(errs, fmt.Errorf("listenAddress %q: %w", c.ListenAddress, err))
	}
	// Last, because it removes what a former host left behind.
	if m.dir, err = rundir.Open(c.RunDir); err != nil {
		return errors.Join(append(errs, err)...)
	}
	m.supervisor, err = supervisor.New(supervisor.Options{
		Dir: c.PluginDir, SocketRoot: m.dir.Plugins(), Host: eviction.Host{Version: m.version},
		Node: facts(c), Settings: pluginSettings(c), Log: m.log, Metrics: m.metrics,
	})
	if err = errors.Join(append(errs, err)...); err != nil {
		return err
	}
	restored, err := m.dir.Load()
	if err != nil {
		m.log.Warn("part of the run directory is not used", "runDir", c.RunDir, "error", err)
	}
	client := runtimeapi.NewRuntimeServiceClient(m.runtime)
	m.loop = loop.New(loop.Options{
		Settings: settings(c, thresholds),
		Pin:      func() loop.Roster { return m.supervisor.Pin() },
		Changed:  m.supervisor.Changed(),
		Pods:     pods.NewCRI(client, pods.NewManifests(c.PodManifestDir)),
		Killer:   criKiller{actuate.NewCRI(client)},
		Recorder: m.recorder, Journal: m.dir, Metrics: m.metrics, Log: m.log,
		Now: time.Now, Restored: restored,
	})
	return nil
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
	go func() {
		defer close(supervised)
		failed = m.supervisor.Run(around)
	}()
	go func() {
		defer close(served)
		m.serve(around, m.listener)
	}()
	select {
	case <-m.supervisor.Started():
		m.tellRuntime(ctx)
		m.log.Info("evictd ready", "version", m.version, "listenAddress", m.listener.Addr().String(), "plugins", m.runningPlugins(), "dryRun", m.config().DryRun)
		m.loop.Run(ctx)
	case <-ctx.Done():
	case <-supervised:
	}
	end()
	<-served
	<-supervised
	return errors.Join(failed, m.close())
}

// tellRuntime says at the start what an absent runtime would otherwise tell at
// the first eviction only.
func (m *Manager) tellRuntime(ctx context.Context) {
	version, err := pods.Probe(ctx, runtimeapi.NewRuntimeServiceClient(m.runtime))
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
func (m *Manager) Reload(ctx context.Context, c Config) (err error) {
	defer func() { m.metrics.Reloaded(err) }()
	if err := config.CheckReload(*m.config(), c); err != nil {
		return err
	}
	thresholds, err := c.Thresholds()
	if err != nil {
		return err
	}
	if err := m.supervisor.Reconfigure(ctx, facts(&c), pluginSettings(&c)); err != nil {
		return err
	}
	if err := m.loop.Apply(ctx, settings(&c, thresholds)); err != nil {
		return err
	}
	m.current.Store(&c)
	return nil
}

// IsUnderMemoryPressure reports whether the node is under memory pressure, as
// far as the last pass knew. It may be called at any time, like its siblings.
func (m *Manager) IsUnderMemoryPressure() bool { return m.loop.Under(eviction.MemoryPressure) }

// IsUnderDiskPressure reports whether the node is under disk pressure.
func (m *Manager) IsUnderDiskPressure() bool { return m.loop.Under(eviction.DiskPressure) }

// IsUnderPIDPressure reports whether the node is under process id pressure.
func (m *Manager) IsUnderPIDPressure() bool { return m.loop.Under(eviction.PIDPressure) }

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
	if m.dir != nil {
		errs = append(errs, m.dir.Close())
	}
	return errors.Join(errs...)
}
