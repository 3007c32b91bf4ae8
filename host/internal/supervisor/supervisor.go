package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/host/internal/supervisor/sandbox"
	"github.com/evictd/evictd/shared/eviction"
)

// maxSocketRoot is what go-plugin's own names leave of the 107 bytes that a
// socket's path may have.
const maxSocketRoot = 65

// A Supervisor runs the plugins of one directory, or those of this process. Make
// one with New or InProcess.
type Supervisor struct {
	dir, socketRoot string
	host            eviction.Host
	timeouts        client.Timeouts
	patience        patience
	log             *slog.Logger
	metrics         Metrics
	expectBuiltins  bool

	// current is who serves what.
	current *registry.Current
	ran     atomic.Bool
	spawn   *sandbox.Root
	started chan struct{}
	changed chan struct{}
	// rescan asks Run to compare members with directory and settings.
	rescan chan struct{}
	// tried is closed when each plugin found at start has been started once, or
	// nobody waits for that any longer.
	tried chan struct{}
	// reconfiguring holds a value while Reconfigure runs.
	reconfiguring chan struct{}
	starts        *startQueue
	wg            sync.WaitGroup
	// inside are the plugins of this process; nil if there is a directory.
	inside map[string]eviction.Plugin
	// asked is what plugins were last asked to observe for.
	asked client.Asked

	// mu guards everything below, and the fields of members and instances that say
	// so. It is never held across a call to a plugin.
	mu         sync.Mutex
	node       eviction.NodeFacts
	settings   map[string]Settings
	assignment registry.Assignment
	// ineffective are assignments that have no effect, with why.
	ineffective []registry.Ineffective
	revision    uint64
	generation  uint64
	members     map[string]*member
	claims      map[string]registry.Registration
	// begun: the plugins found at start were begun; untried and unsettled of them
	// have not been started once, or neither serve nor have failed.
	begun     bool
	untried   int
	unsettled int
	undead    []error
	// changes counts what may let any member serve that could not before, freed
	// what may let one that was refused.
	changes, freed int
}

// New returns a supervisor of the plugins in o.Dir, none of them started. It is
// an error if the directory is missing or others could put plugins into it.
func New(o Options) (*Supervisor, error) {
	s := newSupervisor(o)
	return s, errors.Join(plugindir.Check(o.Dir), s.checkSocketRoot())
}

func newSupervisor(o Options) *Supervisor {
	s := &Supervisor{
		dir: o.Dir, socketRoot: o.SocketRoot,
		host: o.Host, node: o.Node, settings: o.Settings, assignment: o.Assign,
		timeouts: o.Timeouts.WithDefaults(), patience: defaultPatience(),
		log: o.Log, metrics: o.Metrics, expectBuiltins: o.ExpectBuiltins,
		started: make(chan struct{}), changed: make(chan struct{}, 1), rescan: make(chan struct{}, 1),
		tried: make(chan struct{}), reconfiguring: make(chan struct{}, 1), starts: newStartQueue(),
		members: map[string]*member{}, claims: map[string]registry.Registration{}, current: registry.NewCurrent(),
	}
	if s.metrics == nil {
		s.metrics = noMetrics{}
	}
	return s
}

func (s *Supervisor) checkSocketRoot() error {
	abs, err := filepath.Abs(s.socketRoot)
	if err != nil {
		return fmt.Errorf("socket directory %s: %w", s.socketRoot, err)
	}
	s.socketRoot = abs
	if len(abs) > maxSocketRoot {
		return fmt.Errorf("socket directory %s: %d bytes, want at most %d: a socket's path must not exceed 107", abs, len(abs), maxSocketRoot)
	}
	if err := plugindir.TrustedDir(abs); err != nil {
		return fmt.Errorf("socket directory %s: %w", abs, err)
	}
	return nil
}

// Started is closed when every plugin found at start serves or has failed its
// first attempt, after Timeouts.Start at the latest.
func (s *Supervisor) Started() <-chan struct{} { return s.started }

// Changed delivers a value after the set of usable instances has changed, one
// for several changes.
func (s *Supervisor) Changed() <-chan struct{} { return s.changed }

// Run starts the plugins and keeps them running until ctx ends; then it ends
// them all. It returns when nothing is left of them, and an error for each
// process that could not be killed. Plugins of this process are configured
// instead, and one that refuses is an error at once. A Supervisor runs once.
func (s *Supervisor) Run(ctx context.Context) error {
	if s.ran.Swap(true) {
		return errors.New("supervisor ran before, want a new one")
	}
	if s.inside != nil {
		return s.runInside(ctx)
	}
	s.spawn = sandbox.NewRoot(s.socketRoot, s.log)
	removeDirs := s.spawn.Sweep()
	s.wg.Go(func() { removeDirs(ctx) })
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watch := plugindir.NewWatch(s.dir, s.log)
	s.wg.Go(func() { watch.Run(watching) })
	err := s.reconcile(ctx)
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-watch.Changes():
		case <-s.rescan:
		}
		if err := s.reconcile(ctx); err != nil {
			s.log.Error("plugin directory cannot be used, plugins stay as they are", "error", err)
		}
	}
	stop()
	s.wg.Wait()
	s.spawn.Close()
	return errors.Join(append(s.undead, err)...)
}
