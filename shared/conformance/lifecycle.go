package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/wire"
)

const (
	// graceTime is the time between SIGTERM and SIGKILL by the host.
	graceTime = eviction.StopDeadline
	// orphanTime bounds the end of a plugin after the death of its host.
	orphanTime = time.Second
)

// processGroup is about the life of the process; the last checks about what the
// processes of the calls have left.
var processGroup = group{name: "process", opens: (*run).open, checks: []check{
	{
		name: "by-hand", rpc: "(start)", input: "no EVICTD_PLUGIN_COOKIE in the environment",
		expect: "an explanation on standard error and an exit status that is not 0, within 2s", run: byHand,
	},
	{
		name: "health", rpc: "grpc.health.v1.Health/Check", input: `service "plugin"`,
		expect: "SERVING", run: healthy,
	},
	{
		name: "unknown-rpc", rpc: "PluginService/FromTheFuture", input: "an empty message",
		expect: "UNIMPLEMENTED", run: unknownRPC,
	},
	{
		name: "tls-stranger", rpc: "(connect)", input: "a client certificate that the host did not announce, and none",
		expect: "no connection", run: unauthenticated,
	},
	{
		name: "handshake-plain", rpc: "(handshake)", input: "a host without AutoMTLS: no PLUGIN_CLIENT_CERT",
		expect: "a handshake without a certificate, and an answer to Describe without TLS", run: plain, limit: readyTime,
	},
	{
		name: "sigint", rpc: "(signal)", input: "SIGINT, as a terminal sends it to the host's children too",
		expect: "it is ignored", run: onAnother(interrupted),
	},
	{
		name: "sigterm", rpc: "(signal)", input: "SIGTERM with a Watch open, if it watches",
		expect: fmt.Sprintf("exit status 0 within %s", graceTime), run: onAnother(terminated),
	},
	{
		name: "shutdown", rpc: "plugin.GRPCController/Shutdown", input: "an empty message",
		expect: fmt.Sprintf("the process ends within %s", graceTime), run: onAnother(shutdown),
	},
	{
		name: "parent-pipe", rpc: "(EVICTD_PARENT_FD)", input: "the end of file that tells of the host's death, with a Watch open, if it watches",
		expect: fmt.Sprintf("the process ends within %s", orphanTime), run: onAnother(orphaned),
	},
	{
		name: "reconnect", rpc: "(connect)", input: "another connection to the same process, and a third one when the first two are closed",
		expect: "an answer to Describe on each", run: onAnother(reconnected),
	},
	{
		name: "describe-restarted", rpc: "Describe", input: "another process of the same file",
		expect: "the same answer", run: onAnother(describedAnew),
	},
	{
		name: "survivors", rpc: "(process)", input: "the end of the processes so far",
		expect: "nobody who was started by them lives on", run: noSurvivors,
	},
	{
		name: "idle", rpc: "(process)", input: "no calls, after all those that were cancelled",
		expect: fmt.Sprintf("less than half of a processor within %s", settleTime), run: left(computing),
	},
	{
		name: "stdout", rpc: "(process)", input: "all calls",
		expect: "nothing on standard output after the handshake", run: nothingPrinted,
	},
	{
		name: "descriptors", rpc: "(process)", input: "all calls",
		expect: fmt.Sprintf("no more than %d descriptors more than after the first call", spareDescriptors), run: left(moreDescriptors),
	},
	{
		name: "memory", rpc: "(process)", input: "all calls",
		expect: fmt.Sprintf("no more than %d MiB more than after the first call", spareMemory>>20), run: left(moreMemory),
	},
}}

func byHand(_ context.Context, t *target) error {
	p, err := t.run.spawn(true, false)
	if err != nil {
		return err
	}
	defer p.kill()
	if !p.WaitFor(t.run.options.patient(graceTime)) {
		return slow{errors.New("it runs on" + p.quote())}
	}
	line := p.FirstLine()
	switch {
	case p.Succeeded():
		return errors.New("exit status 0")
	case strings.Count(line, "|") >= 4:
		return fmt.Errorf("a handshake on standard output: %.100q", line)
	case p.log() == "":
		return errors.New("nothing on standard error")
	}
	return nil
}

func healthy(ctx context.Context, t *target) error {
	reply, err := grpc_health_v1.NewHealthClient(t.cc).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "plugin"})
	if err == nil && reply.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("status %s", reply.GetStatus())
	}
	return err
}

func unknownRPC(ctx context.Context, t *target) error {
	_, err := t.call(ctx, "FromTheFuture", nil)
	if !errors.Is(err, eviction.ErrUnsupported) {
		return fmt.Errorf("the call ended with %v", err) //nolint:errorlint // it may be nil
	}
	return nil
}

// unauthenticated tries certificates that are not the host's.
func unauthenticated(ctx context.Context, t *target) error {
	if t.run.options.NoTLS {
		return notApplicable("TLS is off by option")
	}
	stranger, err := launch.NewIdentity()
	if err != nil {
		return err
	}
	another, none := stranger.Trusting(t.handshake.Certificate), stranger.Trusting(t.handshake.Certificate)
	none.Certificates = nil
	for who, config := range map[string]*tls.Config{"another certificate": another, "no certificate": none} {
		cc, err := launch.Dial(t.handshake.Socket, credentials.NewTLS(config))
		if err != nil {
			return err
		}
		_, err = wire.NewClient(cc).CallRaw(ctx, "Describe", nil)
		_ = cc.Close()
		if err == nil || status.Code(err) != codes.Unavailable {
			return fmt.Errorf("with %s the call was answered (status %s)", who, status.Code(err))
		}
	}
	return nil
}

func plain(ctx context.Context, t *target) error {
	if t.run.options.NoTLS {
		return notApplicable("all checks were made so, by option")
	}
	other, err := t.run.openProcess(ctx, false)
	if err != nil {
		return err
	}
	other.end()
	return nil
}

// onAnother is a check on a process that it may end, with a Watch open if there is one
// to open.
func onAnother(run func(ctx context.Context, t, other *target) error) func(context.Context, *target) error {
	return func(ctx context.Context, t *target) error {
		other, err := t.run.openProcess(ctx, !t.run.options.NoTLS)
		if err != nil {
			return err
		}
		// It has to end well without a configuration, too, and what a Configure does that
		// ends it is reported elsewhere.
		if err := other.configure(ctx); other.crash(err) != "" {
			other.end()
			if other, err = t.run.openProcess(ctx, !t.run.options.NoTLS); err != nil {
				return err
			}
		}
		defer other.end()
		if signals := other.offering(eviction.CanWatch); len(signals) > 0 {
			_, stop := other.watching(ctx, watchRequest(signals, never), func(eviction.Wake) {})
			defer stop()
			// A call that is answered comes after the Watch was taken up.
			_ = other.describe(ctx)
		}
		return run(ctx, t, other)
	}
}

const wouldKill = "it runs on, the host would kill it"

func interrupted(ctx context.Context, _, other *target) error {
	other.proc.Signal(unix.SIGINT)
	if other.proc.WaitFor(200 * time.Millisecond) {
		return noted("it ends (" + other.proc.Ending() + ")")
	}
	return other.describe(ctx)
}

func terminated(_ context.Context, _, other *target) error {
	other.proc.Signal(unix.SIGTERM)
	if err := other.ends(graceTime, wouldKill); err != nil {
		return err
	}
	if !other.proc.Succeeded() {
		return errors.New(other.proc.Ending() + other.proc.quote())
	}
	return nil
}

func shutdown(ctx context.Context, _, other *target) error {
	err := other.cc.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	if code := status.Code(err); code == codes.Unimplemented {
		return errors.New("UNIMPLEMENTED")
	}
	return other.ends(graceTime, wouldKill)
}

func orphaned(_ context.Context, _, other *target) error {
	other.proc.Orphan()
	return other.ends(orphanTime, "it runs on without a host")
}

// reconnected closes the connection after the new one was used, so that the process
// has been without any.
func reconnected(ctx context.Context, _, other *target) error {
	for range 2 {
		cc, err := launch.Dial(other.handshake.Socket, other.handshake.Credentials(other.proc.identity))
		if err != nil {
			return err
		}
		_, err = wire.NewClient(cc).CallRaw(ctx, "Describe", message{}.text(1, hostVersion))
		_ = cc.Close()
		if err != nil {
			return fmt.Errorf("describe: %w", err)
		}
		_ = other.cc.Close()
	}
	return nil
}

// describedAnew compares what another process of the same file says.
func describedAnew(_ context.Context, t, other *target) error {
	return sameDescription(&t.plugin, &other.plugin)
}

func noSurvivors(ctx context.Context, t *target) error { return t.run.survivors(ctx) }

func nothingPrinted(_ context.Context, t *target) error {
	if printed := t.run.printed; len(printed) > 0 {
		return fmt.Errorf("%.300q", lines(printed))
	}
	return nil
}

// left wants nothing of what the processes have after the checks of the groups.
func left(what func(growth) string) func(context.Context, *target) error {
	return func(_ context.Context, t *target) error {
		var bad []error
		for _, g := range t.run.growth {
			if more := what(g); more != "" {
				bad = append(bad, errors.New(more+" after the checks of "+g.group))
			}
		}
		return errors.Join(bad...)
	}
}

func moreDescriptors(g growth) string {
	if g.descriptors > spareDescriptors {
		return fmt.Sprintf("%d more", g.descriptors)
	}
	return ""
}

func moreMemory(g growth) string {
	if g.rssBytes > spareMemory {
		return fmt.Sprintf("%d MiB more", g.rssBytes>>20)
	}
	return ""
}

func computing(g growth) string {
	if g.busy {
		return fmt.Sprintf("it computed on for %s", settleTime)
	}
	return ""
}
