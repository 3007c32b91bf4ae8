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
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/cluster/access"
	"github.com/evictd/evictd/host/internal/cluster/events"
	"github.com/evictd/evictd/host/internal/cluster/kubeapi"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/expected"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/ground/httpserver"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/podsource/listing"
	"github.com/evictd/evictd/host/internal/node/rundir"
	"github.com/evictd/evictd/host/internal/node/summary"
	victimcri "github.com/evictd/evictd/host/internal/node/victim/cri"
	"github.com/evictd/evictd/host/internal/node/victim/processes"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/memlock"
	"github.com/evictd/evictd/shared/nodefs"
)

// summaryStands is the time without a summary after which the host reads memory and process ids by
// itself: half of the kubelet's interval.
const summaryStands = 5 * time.Second

// commandsInterval is the interval between attempts to open the socket for commands.
const commandsInterval = 10 * time.Second

// runDirInterval is the interval at which a daemon checks that its run directory still exists.
const runDirInterval = time.Second

// lastEventsWait bounds the wait for the API server to accept the last events at shutdown.
const lastEventsWait = 2 * time.Second

// A Daemon is the eviction manager of one node, with its own ways to find and kill pods.
type Daemon struct {
	*Manager

	// commands answers root's commands on a socket, healthz and metrics those of other machines, too.
	commands         *net.UnixListener
	healthz, metered *httpserver.Endpoint
	runtime          *grpc.ClientConn
	// mode finds and kills the pods.
	mode       mode
	inspection *inspect.Watch
}

// urgent is a source of pods that has the heap grow before a pod is chosen: with the little room that it has
// at rest, most choices would contain a collection.
type urgent struct{ *listing.Source }

// Prepare implements pods.Preparer.
func (u urgent) Prepare(ctx context.Context) {
	memlock.Spare()
	u.Source.Prepare(ctx)
}

// New locks the run directory, listens and finds the plugins, but starts none. The error lists
// every problem. A Daemon that New returns must be run.
func New(ctx context.Context, o Options) (*Daemon, error) {
	d := &Daemon{}
	d.Manager = newManager(owner{
		thresholds: func(c *Config) ([]policy.Threshold, error) { return c.Thresholds() },
		adapt: func(ctx context.Context, _, next Config) (Config, error) {
			if err := next.Validate(); err != nil {
				return next, err
			}
			return next, inspect.Capacity(ctx, &next)
		},
		reloaded:  func() { d.inspection.Again() },
		unhealthy: func() []error { return []error{d.mode.pods.Healthy(), d.inspection.Healthy(listing.UnhealthyAfter)} },
		inspected: func() []inspect.Lasting { return d.inspection.Found() },
	}, &o.Config, o.Version, o.Commit, o.Log)
	if o.DroppedLogLines != nil {
		d.metrics.DroppedLogLines = o.DroppedLogLines
	}
	d.metrics.Findings = func() map[metrics.Finding]int {
		found := map[metrics.Finding]int{}
		for _, f := range d.inspection.Found() {
			found[metrics.Finding{Probe: f.Probe, Level: string(f.Level)}]++
		}
		return found
	}
	if err := d.open(ctx, &o); err != nil {
		return nil, errors.Join(err, d.close()) //nolint:contextcheck // closing what it could not use takes no context
	}
	return d, nil
}

func (d *Daemon) open(ctx context.Context, given *Options) error {
	c := d.config()
	runtime, errRuntime := criclient.Dial(c.Node(), c.RuntimeEndpoint)
	healthz, errHealthz := httpserver.Listen(ctx, inspect.Healthz(c, d.log))
	metered, errMetrics := httpserver.Listen(ctx, inspect.Metrics(c, d.log))
	d.runtime, d.healthz, d.metered = runtime, healthz, metered
	api, errAPI := openAPI(ctx, c, d.version, d.log)
	from := sources{
		runtime: runtime, cgroups: true, sampled: c.Source == config.SourceNative,
		layout: func(context.Context) *eviction.LayoutReport { return namedLayout(d.config()) },
	}
	var errSummary error
	if c.UsesSummary() {
		from.summary, errSummary = summary.Open(c.Summary)
	}
	o, err := d.Manager.open(from)
	if err := errors.Join(errRuntime, errHealthz, errMetrics, errAPI, errSummary, inspect.Capacity(ctx, c), err); err != nil {
		return err
	}
	if d.commands, err = httpserver.ListenLocal(rundir.SocketOf(c.RunDir)); err != nil {
		d.log.Error("commands not answered yet", "error", err)
	}
	d.inspection = inspect.NewWatch(func() inspect.Options {
		o := inspect.Options{Config: d.config(), Version: d.version, Falls: store.Falls, Holder: store.Holder}
		if c := d.mode.cluster; c != nil {
			o.Listed = c.source.Listed
		} else {
			o.Active = d.mode.pods.Active
		}
		return o
	}, findingEvents(d.config, d.recorder), d.log)
	if err := d.openMode(api, given.ConfigMap, &o); err != nil {
		return err
	}
	o.Now, o.After, o.BootNanos = time.Now, time.After, nodefs.BootNanos
	reader := d.readers.open(d.facts(c))
	o.Fallback, o.Holder, o.CheckSampleTimes = reader, reader.LargestHolder, true
	if c.Source == config.SourceSummary {
		o.SourceStands = summaryStands
	}
	if given.Alive != nil {
		o.Alive, o.AliveEvery = func() { given.Alive(d.concluded()) }, given.AliveEvery
	}
	d.pods, d.loop = o.Pods, loop.New(o)
	return nil
}

// openMode opens the ways to find and kill pods, with what a former host left in the run directory.
func (d *Daemon) openMode(api *kubeapi.Client, followed *kubeapi.ConfigMap, o *loop.Options) error {
	c := d.config()
	o.TellConditions = loop.StatusEvent
	if err := d.dir.Leftovers(); err != nil {
		d.log.Warn("something of former plugins is left, it is removed while evictd runs", "error", err)
	}
	restored, err := d.dir.Load()
	if err != nil {
		d.log.Warn("part of the run directory is not used", "runDir", c.RunDir, "error", err)
	}
	client := runtimeapi.NewRuntimeServiceClient(d.runtime)
	naming, err := c.Node().Naming(c.CgroupRoot, "")
	if err != nil {
		return err
	}
	d.mode, err = modes[c.Mode](modeOptions{
		config: c, api: api, configMap: followed, journal: d.dir, known: d.dir, ending: victimcri.Options{
			Runtime: client, Lister: criclient.NewLister(client, naming.PodCgroups), PodsDir: func() string { return parts.PodsDir(c) }, Log: d.log,
			Processes: processes.New(processes.Options{FS: c.Node(), Root: c.CgroupRoot, Driver: d.cgroups.Driver, Log: d.log}),
		},
		restored: restored.Kills, dryRun: func() bool { return d.config().DryRun },
		wanted: &pods.Wanted{Ask: func() []string { return wantedBy(d.supervisor) }},
		short:  func(resource string) (known, is bool) { return d.loop.Snapshot().Short(resource) },
		refused: func(pod pods.Pod, why error) {
			d.metrics.EvictionRefused()
			d.recorder.PodEvent(pod, "Warning", victim.ReasonRefused, victim.RefusedMessage(why), nil)
		},
	})
	if err != nil {
		return err
	}
	d.recorder.ownPod = kubeapi.OwnPod()
	o.Pods, o.Manifests, o.Killer = urgent{d.mode.pods}, d.mode.pods.Problems, d.mode.killer
	restored.Kills = d.mode.restored
	o.Journal, o.Restored = d.mode.journal, restored
	if d.mode.cluster != nil {
		o.Conditions = d.mode.cluster.conditions.Set
		o.TellConditions = loop.SeenEvent // the node's conditions are the kubelet's
		d.mode.cluster.source.Follow(func(all []*decision.Decision) { d.records.Others(all, d.mode.cluster.killer.Wrote) })
	}
	return nil
}

// wantedBy returns the labels and annotations that the plugins of s want to see of pods.
func wantedBy(s *supervisor.Supervisor) (keys []string) {
	pin := s.Pin()
	defer pin.Release()
	for _, i := range pin.Instances() {
		keys = slices.Concat(keys, i.Plugin.WantLabels, i.Plugin.WantAnnotations)
	}
	return keys
}

// findingEvents returns a function that reports conflicts with a kubelet's settings, and problems of
// filesystems, once, as events.
func findingEvents(current func() *Config, to *eventRecorder) func([]inspect.Lasting) {
	reported := map[string]bool{}
	report := func(reason, message string) {
		if !reported[message] && !current().DryRun {
			reported[message] = true
			to.NodeEvent("Warning", reason, message)
		}
	}
	return func(found []inspect.Lasting) {
		var settings []string
		for _, f := range found {
			switch {
			case f.Level == inspect.Advice, f.NoEvent:
			case f.Probe == inspect.KubeletConfiguration:
				settings = append(settings, f.Text)
			case f.Probe == inspect.Filesystems:
				report("FilesystemProblem", f.Text)
			}
		}
		if settings != nil {
			report("KubeletSettings", strings.Join(settings, "; ")+"; evictctl check prints settings of the kubelet that go with evictd's")
		}
	}
}

// Run starts the plugins, makes passes and serves until ctx ends. Then it stops deciding, gives
// kills in flight and events a few seconds, stops the plugins and returns when everything has
// ended. The loss of the run directory is an error: the next evictd would create another one.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	var lost error
	rehearse := rehearsal{d.concluded, d.config, d.supervisor.Status, func(ctx context.Context) error {
		_, err := d.ranking(ctx, eviction.MemoryAvailable)
		return err
	}, d.log}
	t := tasks{
		begin: func(context.Context) {},
		beside: []func(context.Context){d.serveCommands, d.serveOthers, rehearse.run, func(around context.Context) {
			lost = awaitRunDirLoss(around, d.dir, d.log, func() bool {
				return slices.ContainsFunc(d.loop.Snapshot().Evictions, func(v victim.Eviction) bool { return v.State == victim.StateKilling })
			})
			leave()
		}},
		passing: []func(context.Context){d.cgroups.Run, d.mode.pods.AwaitFirst, d.inspection.Run},
		ready:   func() { d.logReady(d.healthz.Addr(), d.metered.Addr()) },
		flush:   func(context.Context) {},
	}
	if d.mode.cluster != nil {
		d.besideKubelet(&t)
	}
	err := d.run(ctx, t)
	return errors.Join(err, lost, d.close()) //nolint:contextcheck // ctx has ended
}

// besideKubelet adds what runs with an API server.
func (d *Daemon) besideKubelet(t *tasks) {
	c := d.mode.cluster
	t.begin = func(around context.Context) {
		c.events = events.New(around, c.api.Events(around), c.nodeName, d.log)
		d.recorder.next = events.Without{Recorder: c.events, Reason: victim.ReasonEvicted}
		d.metrics.LostEvents = func() uint64 { return c.events.Lost() + c.killer.LostEvents() }
	}
	t.beside = append(t.beside, c.run, func(around context.Context) {
		expected.Watch(around, func() []expected.Absence { return expected.NotServing(d.config(), d.supervisor.Status()) }, d.recorder.absence)
	}, func(around context.Context) {
		followKubelet(around, c.api.KubeletVersion, d.config().KubeletVersion, func(ctx context.Context, version string) error {
			return d.reload(ctx, func(now Config) Config {
				now.KubeletVersion = version
				return now
			})
		}, d.log)
	})
	ready := t.ready
	t.ready = func() {
		c.source.Problems() // what the plugins want to see is asked for before the first pass
		ready()
	}
	t.flush = func(around context.Context) {
		wait, cancel := context.WithTimeout(around, lastEventsWait)
		defer cancel()
		c.events.Flush(wait)
	}
}

// serveCommands answers commands. Their socket is made again as soon as it can be: on a full disk it cannot, and a cleaner may
// remove it.
func (d *Daemon) serveCommands(ctx context.Context) {
	socket := rundir.SocketOf(d.config().RunDir)
	for ctx.Err() == nil {
		if d.commands != nil {
			served, stop := context.WithCancel(ctx)
			go stopOnceRemoved(served, stop, socket)
			logServed("commands", httpserver.ServeLocal(served, d.commands, d.Handler(), d.log), d.log)
			stop()
			d.commands = nil
		}
		if pause(ctx, commandsInterval) {
			d.commands, _ = httpserver.ListenLocal(socket) // it is said at the start, and tried again
		}
	}
}

// stopOnceRemoved calls stop when the path has no longer the file that it has now.
func stopOnceRemoved(ctx context.Context, stop func(), path string) {
	made, _ := os.Lstat(path)
	for pause(ctx, commandsInterval) {
		if now, err := os.Lstat(path); err != nil || !os.SameFile(made, now) {
			stop()
			return
		}
	}
}

// pause returns false if ctx ends before d is over.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// serveOthers answers other users and machines.
func (d *Daemon) serveOthers(ctx context.Context) {
	health, pages := http.NewServeMux(), http.NewServeMux()
	health.Handle("GET /healthz", healthz(func() error { return d.healthy(d.loop.Snapshot()) }))
	pages.Handle("GET /metrics", d.metrics.Handler())
	authorized := http.Handler(pages)
	if d.config().MetricsElsewhere() {
		authorized = access.New(pages, access.Options{API: d.mode.cluster.api, Log: d.log})
	}
	var serving sync.WaitGroup
	serving.Go(func() { logServed("/healthz", d.healthz.Serve(ctx, health), d.log) })
	serving.Go(func() { logServed("/metrics", d.metered.Serve(ctx, authorized), d.log) })
	serving.Wait()
}

func logServed(what string, err error, log *slog.Logger) {
	if err != nil {
		log.Error("not served any more", "what", what, "error", err)
	}
}

// awaitRunDirLoss returns why the run directory is unusable, once no kill is under way (killing): the
// next evictd could not know of that kill. It returns nil when ctx ends.
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

func (d *Daemon) close() error {
	errs := []error{d.healthz.Close(), d.metered.Close()}
	if d.commands != nil {
		_ = d.commands.Close() // served ones are closed
	}
	if d.runtime != nil {
		errs = append(errs, d.runtime.Close())
	}
	return errors.Join(append(errs, d.Manager.close())...)
}
