// Package conformance checks that a plugin keeps the contract of package eviction and its protocol:
// handshake, deadlines, bounds, idempotence, concurrency, malformed input, orderly shutdown.
//
// It starts an executable of any language as the host does, or serves a value in this process, and
// calls it with made-up pods. `evictctl plugins verify` and sdk/sdktest are built on it. It does not
// judge whether a ranking is wise or a figure true, and it is not the host: it evicts nothing.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/describe"
	"github.com/evictd/evictd/shared/conformance/internal/garbage"
	"github.com/evictd/evictd/shared/conformance/internal/lifecycle"
	"github.com/evictd/evictd/shared/conformance/internal/machine"
	"github.com/evictd/evictd/shared/conformance/internal/measure"
	"github.com/evictd/evictd/shared/conformance/internal/metrics"
	"github.com/evictd/evictd/shared/conformance/internal/observe"
	"github.com/evictd/evictd/shared/conformance/internal/rank"
	"github.com/evictd/evictd/shared/conformance/internal/reclaim"
	"github.com/evictd/evictd/shared/conformance/internal/steady"
	"github.com/evictd/evictd/shared/conformance/internal/watch"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/wire"
)

// maxDir leaves room for a file name in the 107 bytes of a unix socket's path.
const maxDir = 60

// errOutOfTime fails the checks that were not reached before Options.Timeout.
var errOutOfTime = errors.New("the time of the whole run was over before it")

// Binary checks an executable file. It returns an error only if the checks cannot be made at
// all; faults of the plugin are in the report.
func Binary(ctx context.Context, path string, o Options) (Report, error) {
	path, err := executable(path)
	if err != nil {
		return Report{}, err
	}
	return prepared(ctx, o, func(ctx context.Context, r *run) {
		s := &lifecycle.Starter{Setup: &r.setup, Path: path, Dir: r.dir, NoTLS: o.NoTLS, Environment: o.Environment, Policy: o.Sandbox}
		if o.Sandbox != nil {
			s.Root = sandbox.NewRoot(r.dir, o.Tell)
			s.Root.Strict = true
			defer s.Root.Close()
		}
		defer s.Close()
		r.connect = func(ctx context.Context) (*check.Target, error) {
			p, err := s.Open(ctx, !o.NoTLS)
			if err != nil {
				return nil, err
			}
			return p.Target, nil
		}
		if r.start(ctx, s) {
			r.calls(ctx)
		}
		if r.plugin != nil {
			r.together(ctx, "", lifecycle.Group(s, &r.leftovers))
		}
	})
}

// Socket checks a plugin that another program has started and that listens on a socket. It makes the same checks as
// Binary, except those of the start and the end. The plugin gets made-up configurations: it should serve no host.
func Socket(ctx context.Context, path string, o Options) (Report, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != os.ModeSocket { // it may come
		return Report{}, fmt.Errorf("%s is not a socket", path)
	}
	return prepared(ctx, o, func(ctx context.Context, r *run) {
		since := time.Now()
		r.connect = func(ctx context.Context) (*check.Target, error) { return lifecycle.Attach(ctx, &r.setup, path, since) }
		r.calls(ctx)
		if r.plugin != nil {
			r.together(ctx, "", lifecycle.AttachedGroup(&r.leftovers))
		}
	})
}

// Value checks a plugin that is served in this process. It makes the same checks as Binary,
// except those of the process. A method that panics fails its check.
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

func (r *run) value(ctx context.Context, v *wire.Local) {
	since := time.Now()
	r.connect = func(ctx context.Context) (*check.Target, error) {
		cc, err := v.Dial()
		if err != nil {
			return nil, err
		}
		return check.Open(ctx, &r.setup, connection{cc}, wire.NewClient(cc), since)
	}
	r.calls(ctx)
}

// A run makes all checks of one plugin.
type run struct {
	options Options
	setup   check.Setup
	dir     string
	connect func(context.Context) (*check.Target, error)
	known   *check.Target
	plugin  *Description
	checks  []Check
	// leftovers are those of all groups' processes.
	leftovers lifecycle.Leftovers

	mu sync.Mutex
	// reclaimed sums up all calls of Reclaim that were answered.
	reclaimed Reclaimed
}

func (r *run) reclaim(by eviction.Reclaimed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reclaimed.Calls++
	r.reclaimed.Bytes += by.Bytes
	r.reclaimed.Inodes += by.Inodes
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
	r.setup = check.Setup{Config: o.Config, Locate: o.Locate, MayReclaim: o.Reclaim, Reclaimed: r.reclaim, Factor: o.deadlineFactor}
	if o.Node != nil {
		r.setup.Node = *o.Node
	} else {
		r.setup.Node = o.thisNode(dir)
	}
	checks(ctx, r)
	report := Report{Plugin: r.plugin, Only: o.Only, Checks: r.checks, Took: time.Since(begin)}
	if r.reclaimed.Calls > 0 {
		report.Reclaimed = &r.reclaimed
	}
	return report, nil
}

// privateDir makes a directory for sockets that only its owner may enter.
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

// executable returns the absolute path of a regular file, and an error if it is not executable.
func executable(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	// A common mistake is to give the source directory of a plugin in Go instead of its binary.
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

// The groups in beside run in parallel, then those in apart. The latter must not run beside the
// former: a plugin served as a value is one instance with one Watch.
var (
	beside = []check.Group{observe.Group, measure.Group, watch.Group, rank.Group, reclaim.Group, metrics.Group}
	apart  = []check.Group{garbage.Group, steady.Group, machine.Group}
)

// calls checks the calls: Describe and Configure first, since all other checks depend on them.
func (r *run) calls(ctx context.Context) {
	first := r.together(ctx, "", describe.Group)[0]
	if first.known != nil && first.known.Plugin.Name != "" {
		r.known, r.plugin = first.known, describePlugin(&first.known.Plugin)
	}
	r.together(ctx, first.blocked, beside...)
	r.together(ctx, first.blocked, apart...)
}

// together runs groups in parallel. If blocked is not empty, it skips their checks for that reason.
func (r *run) together(ctx context.Context, blocked string, groups ...check.Group) []*runner {
	var runners []*runner
	var running sync.WaitGroup
	for _, g := range groups {
		if r.options.Only != nil && g.Name != DescribeGroup && !slices.Contains(r.options.Only, g.Name) {
			continue
		}
		one := &runner{Group: g, run: r, known: r.known, blocked: blocked}
		runners = append(runners, one)
		running.Go(func() { one.all(ctx) })
	}
	running.Wait()
	for _, one := range runners {
		r.checks = append(r.checks, one.results...)
		r.leftovers.Growth = append(r.leftovers.Growth, one.leftovers.Growth...)
		r.leftovers.Printed = append(r.leftovers.Printed, one.leftovers.Printed...)
	}
	return runners
}

// start starts the executable once and checks each part of its handshake. It reports whether
// the plugin can be called.
func (r *run) start(ctx context.Context, s *lifecycle.Starter) bool {
	begin := time.Now()
	tls := !r.options.NoTLS
	p, err := s.Spawn(false, tls)
	if err == nil {
		defer p.End()
		err = p.Shake(ctx)
	}
	faults, parsed := errors.AsType[launch.Faults](err)
	started := err
	if parsed {
		started = nil
	}
	input := "the environment of a host with AutoMTLS, no arguments"
	certificate := "its own certificate, for localhost, as unpadded base64 of the DER form"
	if !tls {
		input, certificate = "the environment of a host without AutoMTLS, no arguments", "no certificate, as the host sent none"
	}
	took, blocked := time.Since(begin), ""
	for _, part := range []struct {
		name, rpc, expect string
		err               error
		gate              bool
	}{
		{"start", "(start)", fmt.Sprintf("one line on standard output within %s", eviction.HandshakeDeadline), started, true},
		{"handshake-line", "(handshake)", "first on standard output: 1|1|unix|SOCKET|grpc|CERTIFICATE", faults[launch.Line], true},
		{"handshake-major", "(handshake)", "a protocol major of PLUGIN_PROTOCOL_VERSIONS, which is 1", faults[launch.Major], false},
		{"handshake-socket", "(handshake)", "a unix socket directly in PLUGIN_UNIX_SOCKET_DIR", faults[launch.Address], false},
		{"handshake-protocol", "(handshake)", "grpc", faults[launch.Protocol], false},
		{"handshake-certificate", "(handshake)", certificate, faults[launch.Certificate], false},
	} {
		c := Check{Name: part.name, RPC: part.rpc, Input: input, Expected: part.expect}
		c.end(verdict(part.err))
		if blocked != "" {
			c.end(Skipped, blocked)
		} else if part.gate && part.err != nil {
			blocked = "not run after " + part.name + " failed"
		}
		r.checks = append(r.checks, c)
	}
	r.checks[0].Took = took
	return err == nil
}
