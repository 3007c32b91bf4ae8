package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/host/internal/why/find"
	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

var errInterrupted = errors.New("interrupted")

// A replayer replays scenarios, each with its own manager.
type replayer struct {
	// builtin holds plugins that are used unless pluginDir has one of the same name.
	pluginDir, builtin string
	// reclaim also runs reclaim steps of plugins that the scenario does not replace.
	reclaim bool
	// compatibility applies to scenarios without their own.
	compatibility string
	log           *slog.Logger
	// read reads a scenario by name. The default is replay.Read.
	read func(name string) (*replay.Trace, error)
	// say, if the log is not shown, receives which plugins did not start, and why. That may be a
	// vendor's ranker, or an observer that needs a configuration.
	say func(line string)
}

// A replayed holds the trace of a file, if it could be read, and its replay, if the manager ran.
type replayed struct {
	file   string
	trace  *replay.Trace
	replay *replay.Replay
	err    error
}

func (r *replayer) replay(ctx context.Context, file string) replayed {
	done, read := replayed{file: file}, r.read
	if read == nil {
		read = replay.Read
	}
	if done.trace, done.err = read(file); done.err != nil {
		return done
	}
	c := &done.trace.Scenario.Config
	c.Compatibility = cmp.Or(c.Compatibility, r.compatibility)
	if done.replay, done.err = r.run(ctx, done.trace.Scenario); done.err != nil {
		done.err = command.Failure{Err: fmt.Errorf("%s: %w", file, done.err)}
	}
	return done
}

// run replays s with a temporary directory.
func (r *replayer) run(ctx context.Context, s *replay.Scenario) (_ *replay.Replay, err error) {
	dir, err := scratchDir(os.TempDir())
	if err != nil {
		return nil, err
	}
	plugins := dir + "-plugins"
	defer func() { err = errors.Join(err, os.RemoveAll(dir), os.RemoveAll(plugins)) }()
	if err := plugindir.Layer(plugins, r.pluginDir, r.builtin); err != nil {
		return nil, err
	}
	return replay.Run(ctx, s, r.log.With("scenario", s.Name), r.starter(plugins, dir))
}

// scratchDir creates a directory below parent, or in /tmp if paths of plugin sockets would be too long.
func scratchDir(parent string) (string, error) {
	const most = 38
	if len(parent) > most {
		parent = "/tmp"
	}
	return os.MkdirTemp(parent, "evictd-")
}

// each replays files, as many in parallel as there are processors, and calls use with the results
// in order. It ends on an error of use, or with ctx.
func (r *replayer) each(ctx context.Context, files []string, use func(replayed) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	places := make(chan chan replayed, runtime.NumCPU())
	go func() { // until its last result was used
		defer close(places)
		slots := make(chan struct{}, runtime.NumCPU())
		for _, file := range files {
			p := make(chan replayed, 1)
			slots <- struct{}{}
			if ctx.Err() != nil {
				return
			}
			go func() {
				p <- r.replay(ctx, file)
				<-slots
			}()
			places <- p
		}
	}()
	for p := range places {
		if done := <-p; err == nil && ctx.Err() == nil {
			err = use(done)
		}
		if err != nil {
			cancel()
		}
	}
	if err == nil && ctx.Err() != nil {
		return command.Failure{Err: errInterrupted}
	}
	return err
}

// showReplays prints the result of show for each replay, and reports all errors at the end.
func showReplays(ctx context.Context, out io.Writer, r *replayer, files []string, show func(replayed) ([]byte, error)) error {
	var errs []error
	err := r.each(ctx, files, func(done replayed) error {
		if done.err != nil {
			errs = append(errs, done.err)
			return nil //nolint:nilerr // reported at the end
		}
		text, err := show(done)
		if err != nil {
			errs = append(errs, command.Failure{Err: err})
		}
		return command.Written(out.Write(text))
	})
	return errors.Join(append(errs, err)...)
}

// withoutReclaim is why steps of plugins do not run.
const withoutReclaim = "reclaim frees things on this machine, allow it with --reclaim"

// starter makes managers of package host, with plugin processes and a separate run directory.
func (r *replayer) starter(pluginDir, runDir string) replay.Start {
	skip := withoutReclaim
	if r.reclaim {
		skip = ""
	}
	return func(ctx context.Context, w *replay.World) (replay.Manager, func(), error) {
		w.Config.PluginDir, w.Config.RunDir = pluginDir, runDir
		w.Config.Plugins = inContainer(w.Config.Plugins)
		m, err := host.NewEmbedded(host.Embedding{ //nolint:contextcheck // closing what it could not use takes no context
			Config: w.Config, Version: program.Version, Commit: program.Commit, Log: w.Log,
			KillPod: w.KillPod, Recorder: w, Clock: w, Summary: w.Summary, Reclaim: w.Reclaim(), SkipStepsBecause: skip,
			Explain: true, Simulated: true,
		})
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		stop := func() {
			cancel()
			if err := m.Wait(); err != nil {
				w.Log.Warn("manager ended with an error", "error", err)
			}
		}
		if err := m.Start(ctx, w, w.ActivePods, w.CleanedUp, 0); err != nil {
			stop()
			return nil, nil, err
		}
		if err := r.started(w.Config, m.Status().Plugins); err != nil {
			stop()
			return nil, nil, err
		}
		return m, stop, nil
	}
}

// inContainer returns the settings of plugins with which the built-in ones also start in a container,
// where a replay does not use their figures.
func inContainer(settings map[string]config.Plugin) map[string]config.Plugin {
	pid := settings["pid"]
	if err := (nodefs.FS{Root: "/"}).CheckPIDNamespace(false); !errors.Is(err, nodefs.ErrNestedPIDNamespace) || pid.Config != nil {
		return settings
	}
	pid.Config = []byte(`{"nestedNode":true}`)
	all := map[string]config.Plugin{"pid": pid}
	for name, p := range settings {
		if name != "pid" {
			all[name] = p
		}
	}
	return all
}

// started says which plugins did not start. A built-in one of a threshold is an error: the host itself
// would rank by the kubelet's order.
func (r *replayer) started(c config.Config, plugins []supervisor.Status) error {
	thresholds, _ := c.Thresholds() // already validated
	for _, p := range plugins {
		if p.LastError == "" || p.State != supervisor.Backoff && p.State != supervisor.Refused {
			continue
		}
		failed := fmt.Errorf("plugin %s did not start: %s", p.Name, p.LastError)
		if slices.ContainsFunc(thresholds, func(t policy.Threshold) bool { b, _ := eviction.Builtin(t.Signal); return b.Plugin == p.Name }) {
			return failed
		}
		r.say(failed.Error())
	}
	return nil
}

// recordNames resolves decisions named on a command line. Each gets a unique name among the files.
type recordNames struct {
	find.Resolver

	since time.Duration
	// with is a configuration that replaces the recorded one, empty for none.
	with   string
	ids    map[string]string // by name
	config *config.Config
}

// resolve returns args with records replaced by their names.
func (n *recordNames) resolve(args []string) ([]string, error) {
	n.ids = map[string]string{}
	if n.with != "" {
		c, err := config.Load(n.with)
		if err != nil {
			return nil, err
		}
		n.config = &c
	}
	var out []string
	for _, arg := range args {
		if _, err := os.Stat(arg); err != nil {
			r, err := n.Find(arg)
			switch ext := filepath.Ext(arg); {
			case err == nil:
				arg = n.add(r.ID)
			case ext == "" || strings.ContainsAny(ext, "0123456789"): // otherwise it is a file, whose absence is reported
				return nil, err
			}
		}
		out = append(out, arg)
	}
	found, err := n.Newest(n.since)
	for i := range found {
		out = append(out, n.add(found[i].ID))
	}
	return out, err
}

// add returns the name of a record among the files.
func (n *recordNames) add(id string) string {
	name := id + ".record.json"
	n.ids[name] = id
	return name
}

// read reads a record, or a file, which may also contain a record.
func (n *recordNames) read(name string) (trace *replay.Trace, err error) {
	var r *decision.Decision
	if id := n.ids[name]; id != "" {
		r, err = n.Find(id)
	} else if r, _ = store.InFile(name); r == nil { // its errors as a scenario are reported
		trace, err = replay.Read(name)
	}
	if r != nil {
		trace, err = replay.FromRecord(r)
		err = command.Failed(err)
	}
	if err == nil && n.config != nil {
		replay.With(trace.Scenario, n.config)
	}
	return trace, err
}
