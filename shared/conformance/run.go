package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// maxDir leaves room for a name in the 107 bytes that a socket's path may have.
const maxDir = 60

// errOutOfTime fails the checks that were not reached in time.
var errOutOfTime = errors.New("the time of the whole run was over before it")

// Binary checks an executable file. The error is about what keeps the checks from
// being made at all; what is wrong with the plugin is in the report.
func Binary(ctx context.Context, path string, o Options) (Report, error) {
	path, err := executable(path)
	if err != nil {
		return Report{}, err
	}
	return prepared(ctx, o, func(ctx context.Context, r *run) {
		r.path = path
		if o.Sandbox != nil {
			r.root = sandbox.NewRoot(r.dir, o.Tell)
			r.root.Strict = true
			defer r.root.Close()
		}
		defer r.killAll()
		r.connect = func(ctx context.Context) (*target, error) { return r.openProcess(ctx, !r.options.NoTLS) }
		if r.start(ctx) {
			r.calls(ctx)
		}
		r.process(ctx)
	})
}

// Value checks a plugin that is served in this process. It does what Binary does
// but for what concerns the process. A method that panics fails its check.
func Value(ctx context.Context, p eviction.Plugin, o Options) (Report, error) {
	return prepared(ctx, o, func(ctx context.Context, r *run) {
		v, err := serveValue(p)
		if err != nil {
			r.checks = append(r.checks, Check{
				Name: "start", RPC: "(serve)", Input: "the value", Expected: "it can be served", Result: Failed, Seen: err.Error(),
			})
			return
		}
		defer v.Close()
		r.value(ctx, v)
	})
}

func (r *run) value(ctx context.Context, v *value) {
	r.connect = func(ctx context.Context) (*target, error) { return v.target(ctx, r) }
	r.calls(ctx)
}

// A run is all checks of one plugin under way.
type run struct {
	options Options
	node    eviction.NodeFacts
	dir     string
	// path of the executable, "" for a value.
	path string
	// root of the sandboxes, nil for processes with all our rights.
	root    *sandbox.Root
	connect func(context.Context) (*target, error)
	known   *target
	plugin  *Description
	checks  []Check

	spawned atomic.Uint64
	mu      sync.Mutex
	all     []*process
	// growth and printed are what the processes of the groups have left.
	growth  []growth
	printed []string
	// reclaimed is of all calls of Reclaim that were answered.
	reclaimed Reclaimed
}

func (r *run) reclaim(by eviction.Reclaimed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reclaimed.Calls++
	r.reclaimed.Bytes += by.Bytes
	r.reclaimed.Inodes += by.Inodes
}

func (r *run) sum() *Reclaimed {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sum := r.reclaimed; sum.Calls > 0 {
		return &sum
	}
	return nil
}

func prepared(ctx context.Context, o Options, checks func(context.Context, *run)) (Report, error) {
	begin := time.Now()
	dir, err := privateDir()
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if o.Sandbox != nil {
		if err := os.Chmod(dir, 0o711); err != nil { // another user must reach its socket
			return Report{}, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(o.Timeout, DefaultTimeout), errOutOfTime)
	defer cancel()
	r := &run{options: o, dir: dir}
	if o.Node != nil {
		r.node = *o.Node
	} else {
		r.node = o.thisNode(dir)
	}
	checks(ctx, r)
	return Report{Plugin: r.plugin, Only: o.Only, Checks: r.checks, Reclaimed: r.sum(), Took: time.Since(begin)}, nil
}

// privateDir makes a directory for sockets that nobody else may enter.
func privateDir() (string, error) {
	dir, err := os.MkdirTemp("", "evictd-verify-")
	if err == nil && len(dir) > maxDir {
		_ = os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "evictd-verify-")
	}
	if err != nil {
		return "", fmt.Errorf("make socket directory: %w", err)
	}
	return dir, nil
}

// executable returns the absolute path of a regular file that may be executed.
func executable(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	// The directory of a plugin in Go is mistaken for it more often than others.
	if built := filepath.Join(path, "bin", filepath.Base(path)); stat.IsDir() && unix.Access(built, unix.X_OK) == nil {
		return "", fmt.Errorf("%s is not a regular file, did you mean %s", path, built)
	}
	if !stat.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	if unix.Access(path, unix.X_OK) != nil {
		return "", fmt.Errorf("%s is not executable, chmod +x it", path)
	}
	return path, nil
}

// calls checks the calls: what it is and how it is configured first, since all
// others depend on it, then those in parallel.
func (r *run) calls(ctx context.Context) {
	first := r.together(ctx, "", describeGroup)[0]
	if first.known != nil && first.known.plugin.Name != "" {
		r.known, r.plugin = first.known, describe(&first.known.plugin)
	}
	r.together(ctx, first.blocked, observeGroup, measureGroup, watchGroup, rankGroup, reclaimGroup)
	// Not beside the others: of a value there is only one, which has only one Watch.
	r.together(ctx, first.blocked, garbageGroup, steadyGroup, machineGroup)
}

// process checks what concerns the process, and what became of those of the calls.
func (r *run) process(ctx context.Context) {
	if r.plugin != nil {
		r.together(ctx, "", processGroup)
	}
}

// together runs groups at once, or none of their checks if there is a reason not to.
func (r *run) together(ctx context.Context, blocked string, groups ...group) []*runner {
	var runners []*runner
	var running sync.WaitGroup
	for _, g := range groups {
		if !r.options.runs(g.name) {
			continue
		}
		one := &runner{group: g, run: r, known: r.known, blocked: blocked}
		runners = append(runners, one)
		running.Go(func() { one.all(ctx) })
	}
	running.Wait()
	for _, one := range runners {
		r.checks = append(r.checks, one.results...)
		r.growth = append(r.growth, one.growth...)
		r.printed = append(r.printed, one.printed...)
	}
	return runners
}

// open makes a target that was asked what it is.
func (r *run) open(ctx context.Context) (*target, error) { return r.connect(ctx) }

// openConfigured is open for all that comes after Configure.
func (r *run) openConfigured(ctx context.Context) (*target, error) {
	t, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.configure(ctx); err != nil {
		t.end()
		return nil, fmt.Errorf("configure: %w", err)
	}
	return t, nil
}

// openObserved also observes once, as the host does before it measures. An Observe
// that ends the process is left to its own group.
func (r *run) openObserved(ctx context.Context) (*target, error) {
	t, err := r.openConfigured(ctx)
	if err != nil || len(t.offering(eviction.CanObserve)) == 0 {
		return t, err
	}
	if _, err := t.observeAll(ctx); t.crash(err) != "" {
		t.end()
		return r.openConfigured(ctx)
	}
	return t, nil
}

// lines joins what several have to say.
func lines(parts []string) string { return strings.Join(parts, "\n") }
