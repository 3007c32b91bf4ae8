// Package host is the eviction manager as a library: it puts the loop, the
// plugin supervisor, the pod source, the killer and the run directory together
// and keeps them in order from start to end. host/cmd/evictd is its first
// embedder.
//
// It decides nothing by itself: what thresholds mean is host/internal/core/policy,
// the order of a pass host/internal/core/loop.
package host

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/cluster/events"
	"github.com/evictd/evictd/host/internal/cluster/kubeapi"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/expected"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/ground/httpserver"
	"github.com/evictd/evictd/host/internal/node/cgroups"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/fallback"
	"github.com/evictd/evictd/host/internal/node/podsource/listing"
	"github.com/evictd/evictd/host/internal/node/rundir"
	"github.com/evictd/evictd/host/internal/node/summary"
	victimcri "github.com/evictd/evictd/host/internal/node/victim/cri"
	"github.com/evictd/evictd/host/internal/node/victim/processes"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/host/internal/why/recorder"
	"github.com/evictd/evictd/host/internal/why/store"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/summaryapi"
)

// passAllowance is added to the interval before a missing pass counts as stuck.
const passAllowance = 15 * time.Second

// summaryStands is the time without a summary after which the host reads memory and process ids by
// itself: half of the kubelet's interval.
const summaryStands = 5 * time.Second

// runDirInterval is the interval at which a daemon checks that its run directory still exists.
const runDirInterval = time.Second

// lastEventsWait bounds the wait for the API server to accept the last events at shutdown.
const lastEventsWait = 2 * time.Second

// Options configures a Manager. Config, Version, Commit and Log are required.
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

// A Manager is the eviction manager of one node.
type Manager struct {
	version string
	log     *slog.Logger
	started time.Time
	current atomic.Pointer[Config]

	metrics  *metrics.Metrics
	recorder *eventRecorder
	dir      *rundir.Dir
	stats    *summary.Server
	// disks may be nil: then the configuration names the layout.
	disks DiskInfoProvider
	// layoutErr is the last layout error of disks, nil after a success.
	layoutErr  atomic.Pointer[error]
	endpoint   *httpserver.Endpoint
	runtime    *grpc.ClientConn
	supervisor *supervisor.Supervisor
	cgroups    *cgroups.Watch
	// records is nil if no records are kept.
	records  *recorder.Keeper
	loop     *loop.Loop
	rankings *rankings
	// reloading is held while plugins receive new settings.
	reloading chan struct{}
	// embedded is nil in a daemon; cluster is nil in a daemon that does not run beside a kubelet.
	embedded *embedding
	cluster  *cluster
	// listings lists the pods of a daemon, inspection holds what it finds wrong with its node.
	listings   *listing.Source
	inspection *inspect.Watch
}

// New locks the run directory, listens and finds the plugins, but starts none. The error lists
// every problem. A Manager that New returns must be run.
func New(ctx context.Context, o Options) (*Manager, error) {
	m := newManager(&o.Config, o.Version, o.Commit, o.Log)
	if o.DroppedLogLines != nil {
		m.metrics.CountDroppedLogLines(o.DroppedLogLines)
	}
	if err := m.openDaemon(ctx, &o); err != nil {
		return nil, errors.Join(err, m.close()) //nolint:contextcheck // closing what it could not use takes no context
	}
	return m, nil
}

func newManager(c *Config, version, commit string, log *slog.Logger) *Manager {
	m := &Manager{
		version: version, log: log, started: time.Now(), metrics: metrics.New(version, commit),
		recorder: &eventRecorder{nodeName: c.NodeName, log: log}, reloading: make(chan struct{}, 1), rankings: newRankings(),
	}
	m.current.Store(c)
	return m
}

func (m *Manager) openDaemon(ctx context.Context, given *Options) error {
	c := m.config()
	runtime, errRuntime := criclient.Dial(c.RuntimeEndpoint)
	endpoint, errListen := httpserver.Listen(ctx, httpserver.Options{
		Address: c.ListenAddress, CertFile: c.TLSCertFile, KeyFile: c.TLSPrivateKeyFile, NodeName: c.NodeName, Log: m.log,
	})
	m.runtime, m.endpoint = runtime, endpoint
	api, errAPI := openAPI(ctx, c, m.version, m.log)
	o, err := m.open()
	if err := errors.Join(errRuntime, errListen, errAPI, inspect.Capacity(ctx, c), err); err != nil {
		return err
	}
	var reported string
	m.inspection = inspect.NewWatch(func() inspect.Options {
		return inspect.Options{Config: m.config(), Version: m.version, Falls: store.Falls}
	}, func(found []inspect.Lasting) {
		if message := kubeletSettings(m.config().BesideKubelet, found); message != "" && message != reported && !m.config().DryRun {
			reported = message
			m.recorder.NodeEvent("Warning", "KubeletSettings", message)
		}
	}, m.log)
	if err := m.dir.Leftovers(); err != nil {
		m.log.Warn("something of former plugins is left, it is removed while evictd runs", "error", err)
	}
	restored, err := m.dir.Load()
	if err != nil {
		m.log.Warn("part of the run directory is not used", "runDir", c.RunDir, "error", err)
	}
	client := runtimeapi.NewRuntimeServiceClient(m.runtime)
	naming, err := nodefs.FS{Root: c.RootDir}.Naming(c.CgroupRoot, "")
	if err != nil {
		return err
	}
	by, err := modes[c.Mode](modeOptions{
		config: c, api: api, journal: m.dir, known: m.dir, ending: victimcri.Options{
			Runtime: client, Lister: criclient.NewLister(client, naming.PodCgroups), PodsDir: parts.PodsDir(c), Log: m.log,
			Processes: processes.New(processes.Options{FS: nodefs.FS{Root: c.RootDir}, Root: c.CgroupRoot, Driver: m.cgroups.Driver, Log: m.log}),
		},
		restored: restored.Kills, dryRun: func() bool { return m.config().DryRun },
		wanted: &pods.Wanted{Ask: func() []string { return wantedBy(m.supervisor) }},
		short:  func(resource string) (known, is bool) { return m.loop.Snapshot().Short(resource) },
		refused: func(pod pods.Pod, why error) {
			m.metrics.EvictionRefused()
			m.recorder.PodEvent(pod, "Warning", victim.ReasonRefused, victim.RefusedMessage(why), nil)
		},
	})
	if err != nil {
		return err
	}
	m.cluster, m.listings = by.cluster, by.pods
	m.recorder.ownPod = kubeapi.OwnPod()
	o.Pods, o.Manifests = by.pods, by.pods.Problems
	if by.cluster != nil {
		o.Conditions, by.cluster.configMap = by.cluster.conditions.Set, given.ConfigMap
	}
	o.Killer, o.Journal, o.RestoredKills, o.RestoredConditions = by.killer, by.journal, by.restored, restored.Conditions
	o.Now, o.After, o.BootNanos, o.TellConditions = time.Now, time.After, nodefs.BootNanos, true
	reader := fallback.New(m.facts(c))
	o.Fallback, o.Holder, o.CheckSampleTimes = reader, reader.LargestHolder, true
	if c.Source == config.SourceSummary {
		o.SourceStands = summaryStands
	}
	if given.Alive != nil {
		o.Alive, o.AliveEvery = func() { given.Alive(m.concluded()) }, given.AliveEvery
	}
	m.loop = loop.New(o)
	return nil
}

// open opens the resources that daemon and embedded managers share. It takes the run directory last
// of the exclusive ones, because that removes what a former host left behind. It returns the loop
// options common to both.
func (m *Manager) open() (loop.Options, error) {
	c := m.config()
	thresholds, err := m.embedded.thresholds(c)
	if err != nil {
		return loop.Options{}, err
	}
	watch := cgroups.Options{Tell: m.tellPlugins, Tally: m.metrics.PodsMisplaced, Log: m.log}
	if m.embedded == nil || m.embedded.Summary == nil { // which has the stats of pods
		watch.Running = func(ctx context.Context) ([]cgroups.Pod, error) { return running(ctx, m.loop.Pods, m.metrics) }
	}
	m.cgroups = parts.WatchCgroups(c, m.runtime, watch)
	if m.dir, err = rundir.Open(c.RunDir); err != nil {
		return loop.Options{}, err
	}
	var errStats, errPlugins error
	m.stats, errStats = openStats(c, m.dir.Path(), m.embedded, m.log)
	m.supervisor, errPlugins = openPlugins(supervisor.Options{
		Dir: c.PluginDir, SocketRoot: m.dir.Plugins(), Host: eviction.Host{Version: m.version},
		Node: m.facts(c), Settings: parts.PluginSettings(c), Assign: c.Assign, Log: m.log, Metrics: m.metrics,
	}, m.embedded)
	if err := errors.Join(errStats, errPlugins); err != nil {
		return loop.Options{}, err
	}
	m.records = newKeeper(m)
	o := loop.Options{
		Settings: settings(c, thresholds),
		Pin:      m.supervisor.Pin,
		Changed:  m.supervisor.Changed(),
		Recorder: m.recorder,
		Metrics:  m.metrics,
		Options:  observe.Options{Log: m.log},
	}
	if m.records != nil {
		o.Records = m.records
	}
	if m.stats != nil {
		o.Begin = viewsOf(m.stats, m.layout, m.embedded != nil && m.embedded.Summary != nil)
	}
	return o, nil
}

// concluded reports whether any pass has concluded something.
func (m *Manager) concluded() bool { return !m.loop.Snapshot().Time.IsZero() }

func (m *Manager) config() *Config { return m.current.Load() }

// layout returns the layout from the embedding program, or from the configuration.
func (m *Manager) layout(ctx context.Context) summaryapi.Layout {
	if m.disks != nil {
		return askLayout(ctx, m.disks, &m.layoutErr)
	}
	return summaryapi.Layout{InForce: eviction.LayoutNamed(m.config().Summary.Layout)}
}

// facts returns the node facts that plugins receive.
func (m *Manager) facts(c *Config) eviction.NodeFacts {
	return parts.NodeFacts(c, m.cgroups.Driver(), m.stats.Socket())
}

// Run starts the plugins, makes passes and serves until ctx ends. Then it stops deciding, gives
// kills in flight and events a few seconds, stops the plugins and returns when everything has
// ended. The loss of a daemon's run directory is an error: the next evictd would create another
// one.
func (m *Manager) Run(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	// The plugins and the server outlive the loop, which uses them until it ends.
	around, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var reported *events.Recorder
	if m.cluster != nil {
		reported = events.New(around, m.cluster.api.Events(around), m.cluster.nodeName, m.log)
		m.recorder.next = events.Without{Recorder: reported, Reason: victim.ReasonEvicted}
		m.metrics.CountLostEvents(func() uint64 { return reported.Lost() + m.cluster.killer.LostEvents() })
	}
	var failed, lost error
	supervised := make(chan struct{})
	m.cgroups.Begin(ctx)
	m.supervisor.SetNode(m.facts(m.config()))
	var watching, serving sync.WaitGroup
	defer watching.Wait()
	go func() {
		defer close(supervised)
		failed = m.supervisor.Run(around)
	}()
	serving.Go(func() { m.serve(around) })
	serving.Go(func() { m.records.Run(around) })
	if m.embedded == nil { // an embedding program's plugins do not depend on it
		serving.Go(func() {
			lost = awaitRunDirLoss(around, m.dir, m.log, func() bool { return killing(m.loop) })
			leave()
		})
		serving.Go(func() {
			rehearsal{m.concluded, m.config, m.supervisor.Status, func(ctx context.Context) error {
				_, err := m.rankings.of(ctx, m, eviction.MemoryAvailable)
				return err
			}, m.log}.run(around)
		})
	}
	if m.cluster != nil {
		serving.Go(func() { m.cluster.run(around) })
		serving.Go(func() {
			expected.Watch(around, func() []expected.Absence { return expected.NotServing(m.config(), m.supervisor.Status()) }, m.recorder.absence)
		})
		serving.Go(func() {
			followKubelet(around, m.cluster.api.KubeletVersion, m.config().KubeletVersion, func(ctx context.Context, version string) error {
				return m.reload(ctx, func(now Config) Config {
					now.KubeletVersion = version
					return now
				})
			}, m.log)
		})
	}
	select {
	case <-m.supervisor.Started():
		if m.cluster != nil {
			m.cluster.source.Problems() // what the plugins want to see is asked for before the first pass
		}
		m.logReady()
		if !m.loop.OnRequest {
			watching.Go(func() { m.cgroups.Run(ctx) })
		}
		if m.listings != nil {
			watching.Go(func() { m.listings.AwaitFirst(ctx) })
		}
		if m.inspection != nil {
			watching.Go(func() { m.inspection.Run(ctx) })
		}
		m.loop.Run(ctx)
		if reported != nil {
			wait, cancel := context.WithTimeout(around, lastEventsWait)
			reported.Flush(wait)
			cancel()
		}
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
	return errors.Join(failed, lost, m.close()) //nolint:contextcheck // ctx has ended
}

// killing reports whether a kill is under way.
func killing(l *loop.Loop) bool {
	return slices.ContainsFunc(l.Snapshot().Evictions, func(v victim.Eviction) bool { return v.State == victim.StateKilling })
}

// awaitRunDirLoss returns why the run directory is unusable, once no kill is under way: the next
// evictd could not know of that kill. It returns nil when ctx ends.
func awaitRunDirLoss(ctx context.Context, dir *rundir.Dir, log *slog.Logger, killing func() bool) error {
	look := time.NewTicker(runDirInterval)
	defer look.Stop()
	logged := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		err := dir.Check()
		if err == nil {
			continue
		}
		if !killing() {
			return err
		}
		if !logged {
			log.Error("run directory is gone, evictd ends after the kills under way", "error", err)
			logged = true
		}
	}
}

// kubeletSettings returns the message of the event about kubelet settings in a file that conflict
// with evictd's, "" if there are none. A kubelet without such a file has flags: check says so.
func kubeletSettings(file string, found []inspect.Lasting) string {
	var texts []string
	if _, err := os.Stat(file); file != "" && errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	for _, f := range found {
		if f.Probe == inspect.KubeletConfiguration {
			texts = append(texts, f.Text)
		}
	}
	if texts == nil {
		return ""
	}
	return strings.Join(texts, "; ") + "; evictd check prints settings of the kubelet that go with evictd's"
}

func (m *Manager) logReady() {
	address := ""
	if m.endpoint != nil {
		address = m.endpoint.Addr().String()
	}
	var plugins []string
	for _, s := range m.supervisor.Status() {
		if s.State == supervisor.Running {
			plugins = append(plugins, s.Name)
		}
	}
	m.log.Info("evictd ready", "version", m.version, "listenAddress", address, "plugins", plugins, "compatibility", m.config().Kubernetes(), "dryRun", m.config().DryRun)
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
// when called from a function that a pass calls.
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
	c := change(*m.config())
	wrong := usable(c)
	if m.embedded != nil { // the embedding program's, not the configuration's
		c.MonitoringInterval = m.config().MonitoringInterval
	} else if wrong == nil {
		wrong = inspect.Capacity(ctx, &c)
	}
	if err := errors.Join(wrong, config.CheckReload(*m.config(), c)); err != nil {
		return err
	}
	thresholds, err := m.embedded.thresholds(&c)
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
	m.supervisor.Reassign(c.Assign)
	if err := m.loop.Apply(settings(&c, thresholds)); err != nil { // not cancelled half way when ctx ends
		return err
	}
	m.current.Store(&c)
	m.inspection.Again()
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
	errs := []error{m.endpoint.Close()}
	if m.runtime != nil {
		errs = append(errs, m.runtime.Close())
	}
	//nolint:forbidigo // there is no caller's context at the end, and Close limits itself
	errs = append(errs, m.stats.Close(context.Background()))
	if m.dir != nil {
		errs = append(errs, m.dir.Close())
	}
	return errors.Join(errs...)
}
