// Package lifecycle starts processes of a plugin and checks how they live and end.
package lifecycle

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/describe"
	"github.com/evictd/evictd/shared/conformance/internal/watch"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/wire"
)

const (
	// graceTime is the time that the host leaves between SIGTERM and SIGKILL.
	graceTime = eviction.StopDeadline
	// orphanTime is the time in which a plugin must end after the death of its host.
	orphanTime = time.Second
)

// Leftovers hold the remains of the processes of the other groups, to judge.
type Leftovers struct {
	Growth  []Growth
	Printed []string
}

// groupName is the name of the group in options.
const groupName = "process"

// Group checks the life of the process; its last checks judge the leftovers of the other groups.
func Group(r *Starter, of *Leftovers) check.Group {
	return check.Group{Name: groupName, Unconfigured: true, Checks: append([]check.Check{
		{
			Name: "by-hand", RPC: "(start)", Input: "no EVICTD_PLUGIN_COOKIE in the environment",
			Expect: "an explanation on standard error and an exit status that is not 0, within 2s", Run: r.byHand,
		},
		healthCheck(r.onAnother(healthy)),
		unknownRPCCheck,
		{Name: "tls-stranger", RPC: "(connect)", Input: "a client certificate that the host did not announce, and none", Expect: "no connection", Run: r.onAnother(unauthenticated)},
		{
			Name: "handshake-plain", RPC: "(handshake)", Input: "a host without AutoMTLS: no PLUGIN_CLIENT_CERT",
			Expect: "a handshake without a certificate, and an answer to Describe without TLS", Run: r.plain, Limit: eviction.HandshakeDeadline,
		},
		{Name: "sigint", RPC: "(signal)", Input: "SIGINT, as a terminal sends it to the host's children too", Expect: "it is ignored", Run: r.onAnother(interrupted)},
		{Name: "sigterm", RPC: "(signal)", Input: "SIGTERM with a Watch open, if it watches", Expect: fmt.Sprintf("exit status 0 within %s", graceTime), Run: r.onAnother(terminated)},
		{Name: "shutdown", RPC: "plugin.GRPCController/Shutdown", Input: "an empty message", Expect: fmt.Sprintf("the process ends within %s", graceTime), Run: r.onAnother(shutdown)},
		{
			Name: "parent-pipe", RPC: "(EVICTD_PARENT_FD)", Input: "the end of file that tells of the host's death, with a Watch open, if it watches",
			Expect: fmt.Sprintf("the process ends within %s", orphanTime), Run: r.onAnother(orphaned),
		},
		{
			Name: "reconnect", RPC: "(connect)", Input: "another connection to the same process, and a third one when the first two are closed",
			Expect: "an answer to Describe on each", Run: r.onAnother(reconnected),
		},
		{Name: "describe-restarted", RPC: "Describe", Input: "another process of the same file", Expect: "the same answer", Run: r.onAnother(describedByAnother)},
		{
			Name: "survivors", RPC: "(process)", Input: "the end of the processes so far",
			Expect: "nobody who was started by them lives on", Run: func(ctx context.Context, _ *check.Target) error { return r.survivors(ctx) },
		},
		{Name: "stdout", RPC: "(process)", Input: "all calls", Expect: "nothing on standard output after the handshake", Run: of.nothingPrinted},
	}, of.growth()...)}
}

// growth returns the checks of what the calls of all groups have left.
func (l *Leftovers) growth() []check.Check {
	return []check.Check{
		{
			Name: "idle", RPC: "(process)", Input: "no calls, after all those that were cancelled",
			Expect: fmt.Sprintf("less than half of a processor within %s", settleTime), Run: l.none(func(g Growth) (string, bool) { return fmt.Sprintf("it computed on for %s", settleTime), g.Busy }),
		},
		{
			Name: "descriptors", RPC: "(process)", Input: "all calls",
			Expect: fmt.Sprintf("no more than %d descriptors more than after the first call", spareDescriptors), Run: l.none(func(g Growth) (string, bool) {
				return fmt.Sprintf("%d more", g.Descriptors), g.Descriptors > spareDescriptors
			}),
		},
		{
			Name: "memory", RPC: "(process)", Input: "all calls",
			Expect: fmt.Sprintf("no more than %d MiB more than after the first call", spareMemory>>20), Run: l.none(func(g Growth) (string, bool) {
				return fmt.Sprintf("%d MiB more", g.RSSBytes>>20), g.RSSBytes > spareMemory
			}),
		},
	}
}

func healthCheck(run func(context.Context, *check.Target) error) check.Check {
	return check.Check{Name: "health", RPC: "grpc.health.v1.Health/Check", Input: `service "plugin"`, Expect: "SERVING", Run: run}
}

var unknownRPCCheck = check.Check{
	Name: "unknown-rpc", RPC: "PluginService/FromTheFuture", Input: "an empty message", Expect: "UNIMPLEMENTED", Run: unknownRPC,
}

func (r *Starter) byHand(_ context.Context, t *check.Target) error {
	p, err := r.Spawn(true, false)
	if err != nil {
		return err
	}
	defer p.End()
	if !p.WaitFor(t.Patient(graceTime)) {
		return check.Slow("it runs on" + p.quote())
	}
	line := p.FirstLine()
	switch {
	case p.Succeeded():
		return errors.New("exit status 0")
	case strings.Count(line, "|") >= 4:
		return fmt.Errorf("a handshake on standard output: %.100q", line)
	case p.quote() == "":
		return errors.New("nothing on standard error")
	}
	return nil
}

func healthy(ctx context.Context, _ *check.Target, p *Process) error { return serving(ctx, p.conn) }

func serving(ctx context.Context, conn grpc.ClientConnInterface) error {
	reply, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "plugin"})
	if err == nil && reply.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("status %s", reply.GetStatus())
	}
	return err
}

func unknownRPC(ctx context.Context, t *check.Target) error {
	_, err := t.Call(ctx, "FromTheFuture", nil)
	if !errors.Is(err, eviction.ErrUnsupported) {
		return fmt.Errorf("the call ended with %v", err) //nolint:errorlint // it may be nil
	}
	return nil
}

// unauthenticated tries client certificates that are not the host's.
func unauthenticated(ctx context.Context, _ *check.Target, p *Process) error {
	if p.identity == nil {
		return check.NotApplicable("TLS is off by option")
	}
	stranger, err := launch.NewIdentity()
	if err != nil {
		return err
	}
	another, none := stranger.Trusting(p.handshake.Certificate), stranger.Trusting(p.handshake.Certificate)
	none.Certificates = nil
	for who, config := range map[string]*tls.Config{"another certificate": another, "no certificate": none} {
		if err := p.describeOver(ctx, credentials.NewTLS(config)); err == nil || status.Code(err) != codes.Unavailable {
			return fmt.Errorf("with %s the call was answered (status %s)", who, status.Code(err))
		}
	}
	return nil
}

func (r *Starter) plain(ctx context.Context, _ *check.Target) error {
	if r.NoTLS {
		return check.NotApplicable("all checks were made so, by option")
	}
	p, err := r.Open(ctx, false)
	if err != nil {
		return err
	}
	p.End()
	return nil
}

// onAnother runs a check on a process that the check may end. If the plugin watches, the
// process has an open Watch.
func (r *Starter) onAnother(run func(ctx context.Context, t *check.Target, p *Process) error) func(context.Context, *check.Target) error {
	return func(ctx context.Context, t *check.Target) error {
		p, err := r.Open(ctx, !r.NoTLS)
		if err != nil {
			return err
		}
		// The plugin has to end well without a configuration too; another check reports a
		// Configure that crashes the process.
		if err := p.Target.Configure(ctx); p.Target.Crash(err) != "" {
			p.End()
			if p, err = r.Open(ctx, !r.NoTLS); err != nil {
				return err
			}
		}
		defer p.End()
		if signals := p.Target.Offering(eviction.CanWatch); len(signals) > 0 {
			_, stop := watch.Open(ctx, p.Target, watch.Request(signals, watch.Never), func(eviction.Wake) {})
			defer stop()
			// When this call is answered, the plugin has received the Watch.
			_ = p.Target.Describe(ctx)
		}
		return run(ctx, t, p)
	}
}

const wouldKill = "it runs on, the host would kill it"

func interrupted(ctx context.Context, _ *check.Target, p *Process) error {
	p.Signal(unix.SIGINT)
	if p.WaitFor(200 * time.Millisecond) {
		return check.Noted("it ends (" + p.Ending() + ")")
	}
	return p.Target.Describe(ctx)
}

func terminated(_ context.Context, _ *check.Target, p *Process) error {
	p.Signal(unix.SIGTERM)
	if err := p.ends(graceTime, wouldKill); err != nil {
		return err
	}
	if !p.Succeeded() {
		return errors.New(p.Ending() + p.quote())
	}
	return nil
}

func shutdown(ctx context.Context, _ *check.Target, p *Process) error {
	err := p.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) == codes.Unimplemented {
		return errors.New("UNIMPLEMENTED")
	}
	return p.ends(graceTime, wouldKill)
}

func orphaned(_ context.Context, _ *check.Target, p *Process) error {
	p.Orphan()
	return p.ends(orphanTime, "it runs on without a host")
}

// reconnected closes the first connection after using a second one, which it closes too: for a
// moment the process has no connection.
func reconnected(ctx context.Context, _ *check.Target, p *Process) error {
	for range 2 {
		if err := p.describeOver(ctx, p.handshake.Credentials(p.identity)); err != nil {
			return fmt.Errorf("describe: %w", err)
		}
		_ = p.conn.ClientConn.Close()
	}
	return nil
}

func (p *Process) describeOver(ctx context.Context, security credentials.TransportCredentials) error {
	cc, err := launch.Dial(p.handshake.Socket, security)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	_, err = wire.NewClient(cc).CallRaw(ctx, "Describe", p.Target.Host())
	return err
}

func describedByAnother(_ context.Context, t *check.Target, p *Process) error {
	return describe.Same(&t.Plugin, &p.Target.Plugin)
}

func (l *Leftovers) nothingPrinted(context.Context, *check.Target) error {
	if len(l.Printed) > 0 {
		return fmt.Errorf("%.300q", check.Lines(l.Printed))
	}
	return nil
}

// none returns a check that fails for each group whose growth is bad according to what.
func (l *Leftovers) none(what func(Growth) (seen string, bad bool)) func(context.Context, *check.Target) error {
	return func(context.Context, *check.Target) error {
		var bad []error
		for _, g := range l.Growth {
			if seen, is := what(g); is {
				bad = append(bad, errors.New(seen+" after the checks of "+g.Group))
			}
		}
		return errors.Join(bad...)
	}
}
