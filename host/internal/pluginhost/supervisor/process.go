package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/pluginhost/output"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/sandbox"
)

// A launcher finds and starts plugins: processes of a directory, or in-process ones.
type launcher interface {
	// look returns the present plugins.
	look() (map[string]plugindir.File, error)
	// complete waits briefly for the file of a plugin to be complete.
	complete(ctx context.Context, name string) (plugindir.ID, error)
	// launch starts a plugin. On an error it leaves nothing behind.
	launch(ctx context.Context, s start) (running, error)
}

type running interface {
	Describe(ctx context.Context, host eviction.Host) (eviction.Plugin, error)
	pid() int
	// exited is closed when the process ends; nil for an in-process plugin.
	exited() <-chan struct{}
	// ending describes how it has ended, "" if it has not within d.
	ending(d time.Duration) string
	confinement() *Confinement
	// close ends it, and returns an error if it cannot be killed.
	close(grace time.Duration) error
}

// A version identifies the file and settings of a process.
type version struct {
	file   plugindir.ID
	policy startPolicy
}

// A start holds the inputs of a plugin's start.
type start struct {
	version
	client.Config

	trial      bool
	log        *output.Log
	host       eviction.Host
	configure  client.Configuration
	generation uint64
	// replaces is the serving process, nil if there is none.
	replaces *client.Client
}

// A process is one running process of a plugin, or an in-process plugin.
type process struct {
	*registry.Instance
	running
	version

	client *client.Client
	// described is the configuration by which it was described.
	described []byte
	// began is when it started to serve.
	began time.Time
	// gone is closed when it has been ended.
	gone chan struct{}
}

// An undeadError reports a process that cannot be killed.
type undeadError struct{ error }

func (p *process) end(grace time.Duration) error {
	if err := p.close(grace); err != nil {
		return undeadError{fmt.Errorf("plugin %s: %w", p.Name, err)}
	}
	return nil
}

// died returns an error that describes how the process has exited, nil if it has not.
func (p *process) died() error {
	if how := p.ending(0); how != "" {
		return fmt.Errorf("exited by itself (%s)", how)
	}
	return nil
}

// run starts the plugin and prepares it to serve. On an error it leaves nothing behind.
func (s start) run(ctx context.Context, l launcher) (*process, error) {
	r, err := l.launch(ctx, s)
	if err != nil {
		return nil, err
	}
	s.Ending = func() string { return r.ending(launch.Farewell) }
	if limits := r.confinement(); limits != nil && limits.Outside {
		s.Configured = s.trial
	}
	p := &process{running: r, version: s.version, client: client.New(s.Config), described: s.configure.Config, gone: make(chan struct{})}
	err = p.client.Describe(ctx, s.configure, func(ctx context.Context, config []byte) (eviction.Plugin, error) {
		host := s.host
		host.Config = config
		return r.Describe(ctx, host)
	})
	p.Instance = registry.NewInstance(s.Name, s.generation, r.pid(), p.client.Plugin())
	p.Overspent = p.client.Overspent
	if err == nil {
		err = p.client.Configure(ctx, s.configure)
	}
	grace := time.Duration(0)
	if errors.Is(err, eviction.ErrRefused) {
		grace = s.Timeouts.Stop
	}
	if err == nil && s.replaces != nil {
		err, grace = p.client.Probe(ctx, s.replaces), s.Timeouts.Stop
	}
	if err == nil {
		return p, nil
	}
	return nil, errors.Join(err, p.end(grace))
}

// processes launches the plugins of a directory.
type processes struct {
	dir  string
	root *sandbox.Root
}

func (l *processes) look() (map[string]plugindir.File, error) { return plugindir.Look(l.dir) }

func (l *processes) complete(ctx context.Context, name string) (plugindir.ID, error) {
	path, socket := plugindir.Path(l.dir, name)
	file, err := plugindir.Complete(ctx, path)
	if err == nil && !socket {
		_, err = plugindir.Executable(path)
	}
	return file, err
}

func (l *processes) launch(ctx context.Context, s start) (running, error) {
	path, socket := plugindir.Path(l.dir, s.Name)
	if socket {
		return attach(ctx, s, path)
	}
	resolved, err := plugindir.Executable(path) // Check again: it may have waited for long.
	if err != nil {
		return nil, err
	}
	if err := s.policy.possible(s.Name); err != nil {
		return nil, plugindir.Refusal{Err: err}
	}
	program, err := plugindir.Open(resolved, s.file, s.policy.pin, l.root.MkdirTemp)
	if err != nil {
		return nil, err
	}
	box, err := l.root.Prepare(s.Name, s.generation, program, s.policy.Policy)
	if err != nil {
		if _, ok := errors.AsType[sandbox.Impossible](err); ok {
			return nil, plugindir.Refusal{Err: err}
		}
		return nil, err
	}
	c, err := connect(ctx, s.log, box, path, s.policy.mtls, s.Timeouts.Handshake<<s.Doublings)
	switch {
	case errors.Is(err, launch.ErrNotProgram):
		return nil, plugindir.Refusal{Err: err}
	case errors.Is(err, launch.ErrBusy):
		return nil, fmt.Errorf("%w: %w", plugindir.ErrIncomplete, err)
	case err != nil:
		return nil, err
	}
	c.pinned = s.policy.pin != ""
	return c, nil
}

func (c *connection) pid() int { return c.proc.PID() }

func (c *connection) exited() <-chan struct{} { return c.proc.Exited() }

func (c *connection) ending(d time.Duration) string {
	c.proc.WaitFor(d)
	return c.proc.Ending()
}

func (c *connection) confinement() *Confinement {
	return &Confinement{Pinned: c.pinned, Status: c.sandbox.Status()}
}

// restartPolicy determines when a failed plugin is restarted.
type restartPolicy struct {
	first, longest time.Duration // between two starts
	// So many crashes within window put a plugin into quarantine for the duration of window.
	crashes int
	window  time.Duration
	// stable is the run time after which the backoff starts over.
	stable time.Duration
	// hostFault is the pause between starts that fail for the host's own reason.
	hostFault time.Duration
}

func defaultRestartPolicy() restartPolicy {
	return restartPolicy{
		first: 200 * time.Millisecond, longest: 30 * time.Second, crashes: 5, window: 10 * time.Minute, stable: time.Minute,
		hostFault: time.Second,
	}
}

type crashes struct {
	restartPolicy restartPolicy
	wait          *backoff.ExponentialBackOff
	times         []time.Time
}

func newCrashes(p restartPolicy) *crashes {
	wait := backoff.NewExponentialBackOff()
	// Jitter goes both ways: these bounds keep the total wait between first and longest.
	wait.RandomizationFactor = 0.2
	wait.InitialInterval = time.Duration(float64(p.first) / 0.8)
	wait.MaxInterval = time.Duration(float64(p.longest) / 1.2)
	wait.Multiplier = 2
	return &crashes{restartPolicy: p, wait: wait}
}

// next returns how long to wait before the next start, after the plugin ran for ran. A plugin that
// the host killed did not crash: it also waits, but is never put into quarantine, which on a
// thrashing node would disable it when it is needed most.
func (c *crashes) next(now time.Time, ran time.Duration, crashed bool) (wait time.Duration, quarantine bool) {
	if ran >= c.restartPolicy.stable {
		c.wait.Reset()
	}
	if crashed {
		c.times = slices.DeleteFunc(c.times, func(t time.Time) bool { return now.Sub(t) >= c.restartPolicy.window })
		c.times = append(c.times, now)
	}
	if len(c.times) >= c.restartPolicy.crashes {
		c.forget()
		return c.restartPolicy.window, true
	}
	return c.wait.NextBackOff(), false
}

func (c *crashes) forget() {
	c.times = nil
	c.wait.Reset()
}
