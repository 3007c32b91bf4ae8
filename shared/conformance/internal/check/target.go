package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// A Setup is the same for all targets of a run.
type Setup struct {
	Node   eviction.NodeFacts
	Config []byte
	// MayReclaim allows calls that reclaim something on this machine. Reclaimed gets what
	// each one has reclaimed.
	MayReclaim bool
	Reclaimed  func(eviction.Reclaimed)
	// Factor multiplies all deadlines, on a machine that is known to be busy. 0 is 1.
	Factor time.Duration
}

// Patient is d on this machine.
func (s *Setup) Patient(d time.Duration) time.Duration { return d * max(1, s.Factor) }

// Within makes one call with a deadline of its own.
func (s *Setup) Within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	limit = s.Patient(limit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return Slow(fmt.Sprintf("no answer within %s", limit))
	}
	return err
}

// A Server answers the calls: a process, or this one if the plugin is a value.
type Server interface {
	// Ended says how it ended if it does so within d, "" if it lives on.
	Ended(d time.Duration) string
	// Usage is zero when it cannot be read.
	Usage() Usage
	// Printed returns what came on standard output after the handshake.
	Printed() []string
	// End ends it.
	End()
}

// Usage holds the resources of a process.
type Usage struct {
	Descriptors, Threads, Children int
	RSSBytes                       int64
	// Ran is the time its threads have run, Ready the time they have waited for a processor: a
	// machine that is busy otherwise does not make a process idle.
	Ran, Ready time.Duration
	// Shared: others run in the same process.
	Shared bool
	// Runnable: a thread runs or waits for a processor. How long it has waited is counted
	// only when it gets one.
	Runnable bool
}

// A Target is the plugin under test as checks call it.
type Target struct {
	*Setup
	Server

	Client *wire.Client
	// Plugin as it described itself, with calls in its fields.
	Plugin eviction.Plugin
	// Since is before it was there.
	Since time.Time
	// Kept is for a check that leaves something to those after it, nil at first.
	Kept any
}

// Open makes a target of a server once it has described itself.
func Open(ctx context.Context, s *Setup, server Server, client *wire.Client, since time.Time) (*Target, error) {
	t := &Target{Setup: s, Server: server, Client: client, Since: since}
	err := t.Describe(ctx)
	if err == nil {
		return t, nil
	}
	if end := t.Crash(err); end != "" {
		err = fmt.Errorf("%w; %s", err, end)
	}
	t.End()
	return nil, err
}

// HostVersion is the version of the host in Describe.
const HostVersion = "conformance"

// Describe asks the plugin what it is.
func (t *Target) Describe(ctx context.Context) error {
	return t.Within(ctx, eviction.DescribeDeadline, func(ctx context.Context) error {
		p, err := t.Client.Describe(ctx, eviction.Host{Version: HostVersion})
		if err == nil {
			t.Plugin = p
		}
		return err
	})
}

// Configure gives the plugin its node and configuration, if it takes one.
func (t *Target) Configure(ctx context.Context) error {
	if t.Plugin.Configurer == nil {
		return nil
	}
	return t.ConfigureWith(ctx, t.Config)
}

// ConfigureWith gives it another config.
func (t *Target) ConfigureWith(ctx context.Context, config []byte) error {
	return t.Within(ctx, eviction.ConfigureDeadline, func(ctx context.Context) error {
		return t.Plugin.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: t.Node, Config: config})
	})
}

// Offering lists the signals for which the plugin offers c.
func (t *Target) Offering(c eviction.Capability) []eviction.Signal {
	var out []eviction.Signal
	for _, spec := range t.Plugin.Signals {
		if t.Plugin.For(spec.Signal).Has(c) {
			out = append(out, spec.Signal)
		}
	}
	return out
}

// Call makes the call of that name with raw bytes.
func (t *Target) Call(ctx context.Context, rpc string, in Message) ([]byte, error) {
	out, err := t.Client.CallRaw(ctx, rpc, in)
	return out, rawError(ctx, err)
}

// CallWithin is Call with a deadline of its own.
func (t *Target) CallWithin(ctx context.Context, limit time.Duration, rpc string, in Message) (out []byte, err error) {
	err = t.Within(ctx, limit, func(ctx context.Context) error {
		out, err = t.Call(ctx, rpc, in)
		return err
	})
	return out, err
}

// Stream is Call of a call that streams its answers, each of which take gets.
func (t *Target) Stream(ctx context.Context, rpc string, in Message, take func([]byte)) error {
	return rawError(ctx, t.Client.StreamRaw(ctx, rpc, in, take))
}

// rawError is the error of a call by the host, with its status.
func rawError(ctx context.Context, err error) error {
	why := wire.CallError(ctx, err)
	if why == nil || ctx.Err() != nil {
		return why
	}
	return fmt.Errorf("%w (%s)", why, status.Code(err))
}

// endingTime bounds the end of a process whose connection broke.
const endingTime = 400 * time.Millisecond

// Crash says how the process ended if it did, "" while it lives. A connection
// that broke may be ahead of the end of the process.
func (t *Target) Crash(err error) string {
	if errors.Is(err, eviction.ErrUnavailable) {
		return t.Ended(t.Patient(endingTime))
	}
	return t.Ended(0)
}

// Lost reports whether err is worse than an answer or a refusal.
func (t *Target) Lost(err error) bool {
	_, hangs := errors.AsType[Slow](err)
	return hangs || t.Ended(0) != ""
}
