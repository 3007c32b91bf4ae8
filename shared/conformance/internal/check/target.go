package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// A Setup holds what all targets of a run share.
type Setup struct {
	Node   eviction.NodeFacts
	Config []byte
	// Locate may be nil.
	Locate func(eviction.FieldErrors) error
	// MayReclaim allows calls that reclaim something on this machine. Reclaimed is called with
	// the result of each.
	MayReclaim bool
	Reclaimed  func(eviction.Reclaimed)
	// Factor multiplies all deadlines, for a machine known to be busy. 0 means 1.
	Factor time.Duration
}

// Patient returns d multiplied by Factor.
func (s *Setup) Patient(d time.Duration) time.Duration { return d * max(1, s.Factor) }

// Within makes one call with its own deadline. A call that misses it returns Slow.
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

// A Server serves the calls: a process, or this one if the plugin is a value.
type Server interface {
	// Ended says how the process ended if it ends within d, "" if it lives on.
	Ended(d time.Duration) string
	// Usage returns the zero Usage if it cannot be read.
	Usage() Usage
	// Printed returns what the process wrote to standard output after the handshake.
	Printed() []string
	// End ends the process or, for a value, the connection.
	End()
}

// Usage holds the resources that a process uses.
type Usage struct {
	Descriptors, Threads, Children int
	RSSBytes                       int64
	// Ran is the time its threads have run, Ready the time they have waited for a processor. Both
	// count as work: on a busy machine a process that waits is not idle.
	Ran, Ready time.Duration
	// Shared: the figures include other work in the same process.
	Shared bool
	// Runnable: a thread runs or waits for a processor. The kernel adds the waiting time to Ready
	// only when the thread gets one.
	Runnable bool
}

// A Target is the plugin under test as checks call it.
type Target struct {
	*Setup
	Server

	Client *wire.Client
	// Plugin is the plugin's description, with calls in its fields.
	Plugin eviction.Plugin
	// Since is a time just before the start of the plugin.
	Since time.Time
	// Kept holds a value that a check keeps for later checks of its group, nil at first.
	Kept any
}

// Open makes a target of a server and asks the plugin for its description.
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

// HostVersion is the host version that the checks send in Describe.
const HostVersion = "conformance"

// Describe asks the plugin for its description and stores it in Plugin. Its error names the call, which
// other checks make, too.
func (t *Target) Describe(ctx context.Context) error {
	return named("Describe", t.Within(ctx, eviction.DescribeDeadline, func(ctx context.Context) error {
		host := eviction.Host{Version: HostVersion, Features: eviction.Features()}
		p, err := t.Client.Describe(ctx, host)
		if err == nil && p.SignalsFromConfig {
			host.Config = append([]byte{}, t.Config...)
			p, err = t.Client.Describe(ctx, host)
		}
		if err == nil {
			t.Plugin = p
		}
		return err
	}))
}

// Host is the request of Describe as a message, the second one of a plugin whose signals follow from its configuration.
func (t *Target) Host() Message {
	m := Message{}.Text(1, HostVersion)
	for _, f := range eviction.Features() {
		m = m.Text(2, f)
	}
	if t.Plugin.SignalsFromConfig {
		m = m.Bytes(3, t.Config)
	}
	return m
}

func named(call string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", call, err)
	}
	return err
}

// Configure sends the plugin its node and configuration, if it takes one.
func (t *Target) Configure(ctx context.Context) error {
	if t.Plugin.Configurer == nil {
		return nil
	}
	return t.ConfigureWith(ctx, t.Config)
}

// ConfigureWith is like Configure with another config, and requires a Configurer. Its error names the call.
func (t *Target) ConfigureWith(ctx context.Context, config []byte) error {
	return named("Configure", t.Within(ctx, eviction.ConfigureDeadline, func(ctx context.Context) error {
		return t.Plugin.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: t.Node, Config: config})
	}))
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

// Call calls the named method with raw bytes.
func (t *Target) Call(ctx context.Context, rpc string, in Message) ([]byte, error) {
	out, err := t.Client.CallRaw(ctx, rpc, in)
	return out, rawError(ctx, err)
}

// CallWithin is Call with its own deadline.
func (t *Target) CallWithin(ctx context.Context, limit time.Duration, rpc string, in Message) ([]byte, error) {
	return Ask(ctx, t, limit, func(ctx context.Context) ([]byte, error) { return t.Call(ctx, rpc, in) })
}

// Stream is like Call for a method that streams its answers; take gets each of them.
func (t *Target) Stream(ctx context.Context, rpc string, in Message, take func([]byte)) error {
	return rawError(ctx, t.Client.StreamRaw(ctx, rpc, in, take))
}

// rawError returns the error that the host would return, with the gRPC status added.
func rawError(ctx context.Context, err error) error {
	why := wire.CallError(ctx, err)
	if why == nil || ctx.Err() != nil {
		return why
	}
	return fmt.Errorf("%w (%s)", why, status.Code(err))
}

// endingTime limits the wait for the end of a process after its connection broke.
const endingTime = 400 * time.Millisecond

// Crash says how the process ended, "" if it lives. A connection may break shortly before the
// process has ended, so after such an error Crash waits.
func (t *Target) Crash(err error) string {
	if errors.Is(err, eviction.ErrUnavailable) {
		return t.Ended(t.Patient(endingTime))
	}
	return t.Ended(0)
}

// Lost reports whether err is Slow or the process has ended: it is no answer or refusal.
func (t *Target) Lost(err error) bool {
	_, hangs := errors.AsType[Slow](err)
	return hangs || t.Ended(0) != ""
}

// An RPC is a call of the service.
type RPC struct {
	Name string
	// Text is the field number of a text in the request. In Configure and Watch the field is
	// a nested message instead, as which the text cannot be decoded.
	Text    protowire.Number
	Limit   time.Duration
	Offered func(*eviction.Plugin) bool
	streams bool
}

// RPCs are all calls of the service.
var RPCs = []RPC{
	{"Describe", 1, eviction.DescribeDeadline, func(*eviction.Plugin) bool { return true }, false},
	{"Configure", 1, eviction.ConfigureDeadline, func(p *eviction.Plugin) bool { return p.Configurer != nil }, false},
	{"Observe", 3, eviction.ObserveDeadline, func(p *eviction.Plugin) bool { return p.Observer != nil }, false},
	{"Measure", 4, eviction.MeasureDeadline, func(p *eviction.Plugin) bool { return p.Measurer != nil }, true},
	{"Watch", 1, eviction.DescribeDeadline, func(p *eviction.Plugin) bool { return p.Watcher != nil }, true},
	{"Rank", 2, eviction.RankDeadline, func(p *eviction.Plugin) bool { return p.Ranker != nil }, false},
	{"Reclaim", 2, eviction.MeasureDeadline, func(p *eviction.Plugin) bool { return p.Reclaimer != nil }, true},
	{"Metrics", 1, eviction.MetricsDeadline, func(p *eviction.Plugin) bool { return p.Meter != nil }, false},
}

// Forbidden reports whether the call may reclaim something without permission.
func (r RPC) Forbidden(t *Target) bool { return r.Name == "Reclaim" && !t.MayReclaim }

// Call makes the call with raw bytes and reads a stream to its end.
func (r RPC) Call(ctx context.Context, t *Target, in Message) error {
	if r.streams {
		return t.Stream(ctx, r.Name, in, func([]byte) {})
	}
	_, err := t.Call(ctx, r.Name, in)
	return err
}

// GivenUp makes n calls at once, and then n that are cancelled at random times before the first
// n took to be answered, which depends on the machine.
func GivenUp(ctx context.Context, n int, call func(context.Context) error) {
	begin := time.Now()
	_ = All(n, func(int) error { return call(ctx) })
	GivenUpWithin(ctx, max(time.Since(begin), Shortly), n, call)
}

// GivenUpWithin makes n calls at once and cancels each at a random time within d.
func GivenUpWithin(ctx context.Context, d time.Duration, n int, call func(context.Context) error) {
	_ = All(n, func(int) error { return Abandoned(ctx, d, call) })
}

// Abandoned makes a call that ends within d, either by its deadline, which the plugin knows, or
// by a cancellation, which it does not. The time is random on a logarithmic scale, so that some
// of many calls end while the plugin works even if the machine was slower while d was measured.
func Abandoned(ctx context.Context, d time.Duration, call func(context.Context) error) error {
	const least = Shortly / 10
	after := time.Duration(float64(least) * math.Pow(float64(d)/float64(least), rand.Float64()))
	var cancel context.CancelFunc
	if rand.N(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, after)
	} else {
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(after, cancel).Stop()
	}
	defer cancel()
	return call(ctx)
}

// Shortly is a time in which most plugins have not begun to answer.
const Shortly = 2 * time.Millisecond

// All runs n calls at once and returns the first error.
func All(n int, call func(i int) error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs[i] = call(i) })
	}
	running.Wait()
	return cmp.Or(errs...)
}
