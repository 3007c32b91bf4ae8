package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// graceTime is what the host gives a plugin after SIGTERM.
	graceTime = eviction.StopDeadline
	// orphanTime is what a plugin has after the death of its host.
	orphanTime = time.Second
)

// processChecks are about the life of the process; the last ones about what the
// processes of the calls have left.
func processChecks(r *run) []check {
	checks := []check{
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
			expect: "it is ignored", run: interrupted,
		},
		{
			name: "sigterm", rpc: "(signal)", input: "SIGTERM with a Watch open, if it watches",
			expect: fmt.Sprintf("exit status 0 within %s", graceTime), run: terminated,
		},
		{
			name: "shutdown", rpc: "plugin.GRPCController/Shutdown", input: "an empty message",
			expect: fmt.Sprintf("the process ends within %s", graceTime), run: shutdown,
		},
		{
			name: "parent-pipe", rpc: "(EVICTD_PARENT_FD)", input: "the end of file that tells of the host's death, with a Watch open, if it watches",
			expect: fmt.Sprintf("the process ends within %s", orphanTime), run: orphaned,
		},
		{
			name: "reconnect", rpc: "(connect)", input: "another connection to the same process, and a third one when the first two are closed",
			expect: "an answer to Describe on each", run: reconnected,
		},
		{
			name: "describe-restarted", rpc: "Describe", input: "another process of the same file",
			expect: "the same answer", run: describedAnew,
		},
		{
			name: "survivors", rpc: "(process)", input: "the end of the processes so far",
			expect: "nobody who was started by them lives on", run: func(ctx context.Context, _ *target) error { return r.from.survivors(ctx) },
		},
		{
			name: "idle", rpc: "(process)", input: "no calls, after all those that were cancelled",
			expect: fmt.Sprintf("less than half of a processor within %s", settleTime), run: func(context.Context, *target) error { return r.busy() },
		},
		{
			name: "stdout", rpc: "(process)", input: "all calls",
			expect: "nothing on standard output after the handshake", run: func(context.Context, *target) error { return r.stdout() },
		},
		{
			name: "descriptors", rpc: "(process)", input: "all calls",
			expect: fmt.Sprintf("no more than %d descriptors more than after the first call", spareDescriptors),
			run:    func(context.Context, *target) error { return r.descriptors() },
		},
		{
			name: "memory", rpc: "(process)", input: "all calls",
			expect: fmt.Sprintf("no more than %d MiB more than after the first call", spareMemory>>20),
			run:    func(context.Context, *target) error { return r.memory() },
		},
	}
	for i := range checks {
		checks[i].process = true
	}
	return checks
}
