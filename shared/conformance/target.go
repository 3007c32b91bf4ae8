package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/wire"
)

// readyTime bounds the time from a plugin's start to its handshake.
const readyTime = eviction.HandshakeDeadline

// A target is a plugin that can be called: a process with a connection, or a
// value that is served here.
type target struct {
	run    *run
	cc     *grpc.ClientConn
	client *wire.Client
	// plugin as it described itself, with calls in its fields.
	plugin eviction.Plugin

	since time.Time // before it was there
	proc  *process  // nil for a value
	// handshake of the process.
	handshake launch.Handshake
	end       func()
	// measured is the answer of a Measure that several checks look at.
	measured *transcript
	watched  *watched
	// steady is the result of the calls of a check before, nil before it.
	steady *error
	before usage // of the process, once it was warm
}

// call calls an RPC of the service with raw bytes.
func (t *target) call(ctx context.Context, rpc string, in message) ([]byte, error) {
	out, err := t.client.CallRaw(ctx, rpc, in)
	return out, rpcError(ctx, err)
}

// offering lists the signals for which the plugin offers c.
func (t *target) offering(c eviction.Capability) []eviction.Signal {
	var out []eviction.Signal
	for _, spec := range t.plugin.Signals {
		if t.plugin.For(spec.Signal).Has(c) {
			out = append(out, spec.Signal)
		}
	}
	return out
}

// describe asks the plugin what it is.
func (t *target) describe(ctx context.Context) error {
	return t.run.options.within(ctx, describeTime, func(ctx context.Context) error {
		p, err := t.client.Describe(ctx, eviction.Host{Version: hostVersion})
		if err == nil {
			t.plugin = p
		}
		return err
	})
}

// hostVersion is the version of the host in Describe.
const hostVersion = "conformance"

// configure gives the plugin its node and configuration, if it takes one.
func (t *target) configure(ctx context.Context) error {
	if t.plugin.Configurer == nil {
		return nil
	}
	return t.run.options.within(ctx, configureTime, func(ctx context.Context) error {
		return t.plugin.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: t.run.node, Config: t.run.options.Config})
	})
}

// crash says how the process ended if it did, "" while it lives. A connection
// that broke may be ahead of the end of the process.
func (t *target) crash(err error) string {
	if t.proc == nil {
		return ""
	}
	wait := time.Duration(0)
	if errors.Is(err, eviction.ErrUnavailable) {
		wait = t.run.options.patient(endingTime)
	}
	if !t.proc.WaitFor(wait) {
		return ""
	}
	return fmt.Sprintf("the process ended (%s)%s", t.proc.Ending(), t.proc.quote())
}

// ends wants the process to end within d.
func (t *target) ends(d time.Duration, otherwise string) error {
	if !t.proc.WaitFor(t.run.options.patient(d)) {
		return slow{errors.New(otherwise + t.proc.quote())}
	}
	return nil
}

// lost reports whether err is worse than an answer or a refusal.
func (t *target) lost(err error) bool {
	_, hangs := errors.AsType[slow](err)
	return hangs || t.proc != nil && t.proc.ended()
}

// usage of a value is that of this process.
func (t *target) usage() usage {
	if t.proc == nil {
		var self unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &self)
		return usage{threads: runtime.NumGoroutine(), ran: time.Duration(self.Utime.Nano() + self.Stime.Nano())}
	}
	return t.proc.usage()
}

// grown compares the process with what it held when it was warm. It waits for
// descriptors that are being closed, and for a garbage collector to do so: large
// messages give it a reason.
func (t *target) grown(ctx context.Context, group string) (growth, bool) {
	if t.proc == nil || t.before.descriptors == 0 || t.proc.ended() {
		return growth{}, false
	}
	var now usage
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		now = t.proc.usage()
		if now.descriptors-t.before.descriptors <= spareDescriptors || time.Since(begin) > settleTime {
			break
		}
		_ = largeMessage(ctx, t)
	}
	g := growth{group: group, busy: t.proc.busy(t.run.options.patient(settleTime))}
	g.descriptors, g.rssBytes = now.descriptors-t.before.descriptors, now.rssBytes-t.before.rssBytes
	return g, true
}
