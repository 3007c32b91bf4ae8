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
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
)

// maxDir leaves room for a name in the 107 bytes that a socket's path may have.
const maxDir = 60

// errOutOfTime is what checks that were not reached have seen.
var errOutOfTime = errors.New("the time of the whole run was over before it")

// Binary checks an executable file. The error is about what keeps the checks from
// being made at all; what is wrong with the plugin is in the report.
func Binary(ctx context.Context, path string, o Options) (Report, error) {
	path, err := executable(path)
	if err != nil {
		return Report{}, err
	}
	return prepared(ctx, o, func(ctx context.Context, r *run) {
		r.from = &launcher{path: path, options: &r.options, node: r.node, dir: r.dir}
		defer r.from.killAll()
		r.open = func(ctx context.Context) (*target, error) { return r.from.open(ctx, !r.options.NoTLS) }
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
		v, err := serveValue(p, filepath.Join(r.dir, "s"))
		if err != nil {
			r.checks = append(r.checks, Check{
				Name: "start", RPC: "(serve)", Input: "the value", Expected: "it can be served", Result: Failed, Seen: err.Error(),
			})
			return
		}
		defer v.stop()
		r.value(ctx, v)
	})
}

func (r *run) value(ctx context.Context, v *value) {
	r.open = func(ctx context.Context) (*target, error) { return v.target(ctx, r) }
	r.calls(ctx)
}

// A run is all checks of one plugin under way.
type run struct {
	options Options
	node    eviction.NodeFacts
	dir     string
	from    *launcher
	open    func(context.Context) (*target, error)
	known   *target
	plugin  *Description
	checks  []Check
	growth  []growth
	printed []string
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
	return Report{Plugin: r.plugin, Only: o.Only, Checks: r.checks, Took: time.Since(begin)}, nil
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

// start checks how the plugin comes up, and reports whether it can be called.
func (r *run) start(ctx context.Context) bool {
	checks, ok := r.from.checkStart(ctx)
	r.checks = append(r.checks, checks...)
	return ok
}

// calls checks the calls: what it is and how it is configured first, since all
// others depend on it, then those in parallel.
func (r *run) calls(ctx context.Context) {
	first := r.runner(group{DescribeGroup, append(describeChecks(), configureChecks()...)})
	first.run(ctx)
	if first.known != nil && first.known.plugin.Name != "" {
		r.known, r.plugin = first.known, describe(&first.known.plugin)
	}
	r.finish(ctx, first)
	groups := []group{
		{"observe", observeChecks()},
		{"measure", measureChecks()},
		{"watch", watchChecks()},
		{"rank", rankChecks()},
		{"reclaim", reclaimChecks()},
	}
	r.together(ctx, first.blocked, groups)
	// Not beside the others: of a value there is only one, which has only one Watch.
	r.together(ctx, first.blocked, []group{{"garbage", garbageChecks()}, {"steady", steadyChecks()}, {"machine", machineChecks()}})
}

// together runs groups at once, or none of them if there is a reason not to.
func (r *run) together(ctx context.Context, blocked string, groups []group) {
	var runners []*runner
	var running sync.WaitGroup
	for _, g := range groups {
		if !r.options.runs(g.name) {
			continue
		}
		t := r.runner(g)
		t.blocked, t.open = blocked, r.openConfigured
		if g.name == "measure" {
			t.open = r.openObserved
		}
		runners = append(runners, t)
		running.Go(func() {
			t.run(ctx)
			t.close(ctx)
		})
	}
	running.Wait()
	for _, t := range runners {
		r.finish(ctx, t)
	}
}

// openConfigured is open for all that comes after Configure.
func (r *run) openConfigured(ctx context.Context) (*target, error) {
	s, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.configure(ctx); err != nil {
		s.end()
		return nil, fmt.Errorf("configure: %w", err)
	}
	return s, nil
}

// openObserved also observes once, as the host does before it measures. An Observe
// that ends the process is left to its own group.
func (r *run) openObserved(ctx context.Context) (*target, error) {
	s, err := r.openConfigured(ctx)
	if err != nil || len(s.offering(eviction.CanObserve)) == 0 {
		return s, err
	}
	if _, err := s.observeAll(ctx); s.crash(err) != "" {
		s.end()
		return r.openConfigured(ctx)
	}
	return s, nil
}

func (r *run) runner(g group) *runner {
	return &runner{group: g, options: &r.options, open: r.open, known: r.known}
}

func (r *run) finish(ctx context.Context, t *runner) {
	t.close(ctx)
	r.checks = append(r.checks, t.results...)
	r.growth = append(r.growth, t.growth...)
	r.printed = append(r.printed, t.printed...)
}

// process checks what concerns the process, and what became of those of the calls.
func (r *run) process(ctx context.Context) {
	if r.plugin == nil || !r.options.runs("process") {
		return
	}
	t := r.runner(group{"process", processChecks(r)})
	t.run(ctx)
	r.finish(ctx, t)
}

// lines joins what several have to say.
func lines(parts []string) string { return strings.Join(parts, "\n") }

// checkStart starts the executable once and checks its handshake, part by part.
func (o *launcher) checkStart(ctx context.Context) ([]Check, bool) {
	begin := time.Now()
	tls := !o.options.NoTLS
	p, err := o.process(false, tls)
	if err == nil {
		defer p.kill()
		_, err = p.ready(ctx)
	}
	faults, parsed := errors.AsType[launch.Faults](err)
	started := err
	if parsed {
		started = nil
	}
	input := "the environment of a host with AutoMTLS, no arguments"
	if !tls {
		input = "the environment of a host without AutoMTLS, no arguments"
	}
	results := []Check{{
		Name: "start", RPC: "(start)", Input: input,
		Expected: fmt.Sprintf("one line on standard output within %s", readyTime), Took: time.Since(begin),
	}}
	results[0].end(verdict(started))
	for _, part := range []struct {
		is           launch.Part
		name, expect string
	}{
		{launch.Line, "handshake-line", "first on standard output: 1|1|unix|SOCKET|grpc|CERTIFICATE"},
		{launch.Major, "handshake-major", "a protocol major of PLUGIN_PROTOCOL_VERSIONS, which is 1"},
		{launch.Address, "handshake-socket", "a unix socket directly in PLUGIN_UNIX_SOCKET_DIR"},
		{launch.Protocol, "handshake-protocol", "grpc"},
		{launch.Certificate, "handshake-certificate", certificateExpected(tls)},
	} {
		c := Check{Name: part.name, RPC: "(handshake)", Input: input, Expected: part.expect}
		switch {
		case started != nil:
			c.Result, c.Seen = Skipped, "not run after start failed"
		case faults.Of(launch.Line) != nil && part.is != launch.Line:
			c.Result, c.Seen = Skipped, "not run after handshake-line failed"
		default:
			c.end(verdict(faults.Of(part.is)))
		}
		results = append(results, c)
	}
	return results, err == nil
}

func certificateExpected(tls bool) string {
	if tls {
		return "its own certificate, for localhost, as unpadded base64 of the DER form"
	}
	return "no certificate, as the host sent none"
}
