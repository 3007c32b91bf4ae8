package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// maxSocketRoot bounds the path of SocketRoot in bytes: go-plugin's own names take the rest of the
// 107 bytes of a socket's path.
const maxSocketRoot = 65

// A Supervisor runs the plugins of one directory, and in-process ones. Make one with New. Run's
// goroutine owns its state, in the controller: others send it events and read what it publishes.
type Supervisor struct {
	control *controller
	// running counts the functions that run outside the loop.
	running int
	// root is nil if all plugins are in-process.
	root *sandbox.Root

	ran              atomic.Bool
	events           chan event
	started, changed chan struct{}
	ended            chan struct{}
	// reconfiguring holds a value while Reconfigure runs.
	reconfiguring chan struct{}

	current *registry.Current
	shown   atomic.Pointer[snapshot]
}

// An event is a function for the loop to call.
type event struct {
	do func()
	// done, if not nil, is closed when do has returned and its consequences are published.
	done chan struct{}
}

// New returns a supervisor of the plugins in o.Dir and o.Inside without starting any. It returns an
// error if the directory is missing or others could put plugins into it, or if a plugin of o.Inside
// breaks the contract or refuses the host; Run reports those that refuse their configuration.
func New(o Options) (*Supervisor, error) {
	inside := o.Inside
	o.Host.Features = eviction.Features()
	s, err := newSupervisor(o, inside), inside.check(o.Host)
	if o.Dir != "" || len(inside) == 0 {
		socketRoot, wrong := checkSocketRoot(o.SocketRoot)
		s.root = sandbox.NewRoot(socketRoot, tell(o.Log))
		s.control.launcher = &mixed{&processes{o.Dir, s.root}, inside, o.DirOptional}
		missing := plugindir.Check(o.Dir)
		if o.DirOptional && errors.Is(missing, fs.ErrNotExist) {
			missing = nil
		}
		err = errors.Join(err, missing, wrong)
	}
	return s, err
}

// tell returns callbacks that log reports about sandboxes.
func tell(log *slog.Logger) sandbox.Tell {
	return sandbox.Tell{
		Unlimited: func(name string, err error) {
			log.Warn("plugins run without some of their limits", "plugin", name, "error", err)
		},
		Left: func(name string, err error) {
			if name == "" {
				log.Error("something of former plugins is left", "error", err)
			} else {
				log.Error("something of a plugin is left", "plugin", name, "error", err)
			}
		},
	}
}

func newSupervisor(o Options, l launcher) *Supervisor {
	s := &Supervisor{
		events: make(chan event), started: make(chan struct{}), changed: make(chan struct{}, 1), ended: make(chan struct{}),
		reconfiguring: make(chan struct{}, 1), current: registry.NewCurrent(),
	}
	o.Timeouts = o.Timeouts.WithDefaults()
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	s.control = &controller{
		catalog:  &catalog{Options: o, plugins: map[string]*plugin{}, restartPolicy: defaultRestartPolicy()},
		launcher: l, slots: runtime.GOMAXPROCS(0), slotLimit: startSlotLimit, asked: client.NewAsked(),
		after: s.after, report: func(f func()) { s.call(func(*controller) { f() }) },
	}
	s.publish()
	return s
}

// checkSocketRoot returns the absolute path of the socket directory.
func checkSocketRoot(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir, fmt.Errorf("socket directory %s: %w", dir, err)
	}
	if err := CheckSocketPath(abs); err != nil {
		return abs, err
	}
	if err := plugindir.TrustedDir(abs); err != nil {
		return abs, fmt.Errorf("socket directory %s: %w", abs, err)
	}
	return abs, nil
}

// CheckSocketPath returns an error if paths of plugin sockets below dir would be too long.
func CheckSocketPath(dir string) error {
	if len(dir) > maxSocketRoot {
		return fmt.Errorf("socket directory %s: %d bytes, want at most %d: a socket's path must not exceed 107; want a shorter runDir", dir, len(dir), maxSocketRoot)
	}
	return nil
}

// SetNode replaces Options.Node before Run; later use Reconfigure.
func (s *Supervisor) SetNode(node eviction.NodeFacts) { s.control.Node = node }

// Started is closed when every plugin found at the start serves or has failed its first attempt,
// after Timeouts.Start at the latest.
func (s *Supervisor) Started() <-chan struct{} { return s.started }

// Changed delivers a value after the set of serving instances has changed, one for several changes.
func (s *Supervisor) Changed() <-chan struct{} { return s.changed }

// Pin pins the serving instances for a pass. The caller must release it.
func (s *Supervisor) Pin() *registry.Pin { return s.current.Pin() }

// Run starts the plugins and keeps them running until ctx ends; then it ends them all. It returns
// after the last one is gone, with an error for each process that could not be killed. It
// configures in-process plugins, and returns an error at once if one refuses. A Supervisor runs
// once.
func (s *Supervisor) Run(ctx context.Context) error {
	if s.ran.Swap(true) {
		return errors.New("supervisor ran before, want a new one")
	}
	defer close(s.ended)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.control.run = func(work func(context.Context) func()) context.CancelFunc { return s.run(ctx, work) }
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	if s.root != nil {
		defer s.root.Close()
		removeDirs := s.root.Sweep()
		watch := plugindir.NewWatch(s.control.Dir, s.control.Log)
		s.run(watching, func(ctx context.Context) func() { removeDirs(ctx); return func() {} })
		s.run(watching, func(ctx context.Context) func() { watch.Run(ctx, s.look); return func() {} })
	}
	files, err := s.control.launcher.look()
	if err != nil {
		stop()
		s.until(ctx, unwatch)
		return err
	}
	s.control.found(files)
	failed := s.until(ctx, unwatch)
	return errors.Join(append(s.control.undead, failed...)...)
}

// run calls work outside the loop, and the function that it returns in the loop. The returned
// function cancels work's context.
func (s *Supervisor) run(ctx context.Context, work func(context.Context) func()) context.CancelFunc {
	ctx, cancel := context.WithCancel(ctx)
	s.running++
	go func() {
		conclude := work(ctx)
		cancel()
		s.events <- event{do: func() {
			s.running--
			conclude()
		}}
	}()
	return cancel
}

// until runs the loop until ctx ends and all plugins are gone, or an in-process plugin fails to
// start, which it returns as failed. It calls unwatch before it returns.
func (s *Supervisor) until(ctx context.Context, unwatch func()) (failed []error) {
	announced := false
	over := ctx.Done()
	var done chan struct{}
	for {
		s.control.settle()
		s.publish()
		if done != nil {
			close(done)
			done = nil
		}
		if s.control.started && !announced {
			announced = true
			if failed = s.control.failed; len(failed) == 0 {
				close(s.started)
			} else {
				s.control.stopping = true
				unwatch()
				continue
			}
		}
		if s.control.stopping && s.running == 0 {
			if ctx.Err() != nil {
				return nil // Errors due to the shutdown do not count.
			}
			return failed
		}
		select {
		case <-over:
			s.control.stopping, over = true, nil
		case e := <-s.events:
			e.do()
			done = e.done
		}
	}
}

// look scans the directory, outside the loop: it may hang.
func (s *Supervisor) look() {
	files, err := s.control.launcher.look()
	s.call(func(c *controller) {
		if err != nil {
			c.Log.Error("plugin directory cannot be used, plugins stay as they are", "error", err)
			return
		}
		c.found(files)
	})
}

// call calls f in the loop and returns when its consequences are published, false if the loop has ended.
func (s *Supervisor) call(f func(*controller)) bool {
	e := event{do: func() { f(s.control) }, done: make(chan struct{})}
	select {
	case s.events <- e:
		<-e.done
		return true
	case <-s.ended:
		return false
	}
}

func (s *Supervisor) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		select {
		case s.events <- event{do: f}:
		case <-s.ended:
		}
	})
}

func (s *Supervisor) publish() {
	r := s.control.registry()
	s.current.Publish(r)
	s.shown.Store(s.control.snapshot(r))
	if s.control.changed {
		s.control.changed = false
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}
