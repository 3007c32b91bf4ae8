package observe

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/wake"
	"github.com/evictd/evictd/shared/eviction"
)

// NoObserver is the error of a signal without a plugin.
const NoObserver = "no running plugin observes it"

// ErrNoLayout is why nothing can be concluded while the layout of the filesystems is unknown, in the
// kubelet's words.
var ErrNoLayout = errors.New("eviction manager: failed to get HasDedicatedImageFs")

// Config holds the settings that a reload may change.
type Config struct {
	Thresholds []policy.Threshold
	// Assigned names the plugins that the configuration puts in charge; nil if it names none.
	Assigned policy.Assigned
	// LayoutOnce asks for the layout of the filesystems until it is known, and treats an error
	// about writable layers as "not split". Otherwise each full pass asks for it.
	LayoutOnce bool
}

// Metrics counts observations and failed calls of plugins. It is safe for concurrent use.
type Metrics interface {
	Observed(s eviction.Signal, available, capacity int64)
	Unobserved(s eviction.Signal, yes bool)
	ReadByHost(s eviction.Signal, yes bool)
	Contradicted(s eviction.Signal, yes bool)
	SignalGone(s eviction.Signal)
	CallFailed(plugin, call string, err error)
}

// Options configures an Observer.
type Options struct {
	Metrics Metrics
	Log     *slog.Logger
	// Now is the clock that policy uses. CheckSampleTimes marks observations with impossible sample
	// times as unknown; their times must be on that clock.
	Now              func() time.Time
	CheckSampleTimes bool
	// Begin, if not nil, receives each view of the node before plugins are asked
	// for it, and whether they will be asked for the layout.
	Begin func(ctx context.Context, at eviction.PassView, layout bool)
	// Fallback, if not nil, reads signals of hard thresholds that no plugin has observed for a
	// second, and measures pods that no plugin measures.
	Fallback Fallback
	// SourceStands is the time for which the plugins' source of figures is authoritative although
	// they report that it has none: the host does not read them elsewhere, and later only those of
	// the kernel, which it can also measure of pods. 0 means not at all.
	SourceStands time.Duration
}

// Forever is a SourceStands without end.
const Forever = time.Duration(math.MaxInt64)

// An Observer observes the signals. It belongs to one goroutine, except for the parts that say
// otherwise.
type Observer struct {
	Options
	Thresholds     *Thresholds
	Responsiveness Responsiveness
	signals        map[eviction.Signal]*signal
}

// A signal holds the state of one signal.
type signal struct {
	observation eviction.Observation // the last one, without its signal if there was none
	before      eviction.Observation // one from paceOver before it
	by          string               // who has made it
	why         string               // it is not observed
	failing     time.Time            // since when the plugin that should observe it cannot
	// unknownSince is when the first pass began that found no figure although a hard threshold
	// needs it; readByHost is set while the host reads it instead.
	unknownSince  time.Time
	readByHost    bool
	readAfter     time.Duration // from unknownSince
	contradiction Contradiction
}

// New returns an observer without observations.
func New(o Options) *Observer {
	return &Observer{Options: o, Thresholds: &Thresholds{log: o.Log}, signals: map[eviction.Signal]*signal{}}
}

// Configure puts a configuration in force. It drops and returns the signals that no longer have a
// threshold.
func (o *Observer) Configure(c Config) (gone []eviction.Signal) {
	gone = o.Thresholds.configure(c)
	for _, s := range gone {
		o.Metrics.SignalGone(s)
		delete(o.signals, s)
	}
	return gone
}

func (o *Observer) of(s eviction.Signal) *signal {
	if o.signals[s] == nil {
		o.signals[s] = &signal{}
	}
	return o.signals[s]
}

// A Request is the input of an observation.
type Request struct {
	Pin   *registry.Pin
	At    eviction.PassView
	Scope wake.Scope
	// State determines which of several figures of a signal counts.
	State policy.State
	// Budget bounds the wait for custom plugins.
	Budget *Budget
}

// Seen is the result of observing the node.
type Seen struct {
	// Asked holds the signals of thresholds that were asked for. One without an observation has no
	// observer at all.
	Asked        []eviction.Signal
	Observations map[eviction.Signal]eviction.Observation
	// Claims holds all figures of signals with several observers, the one that counts first.
	Claims map[eviction.Signal][]policy.Claim
	// Thresholds for the pass to assess.
	Thresholds []policy.Threshold
	// layout of the filesystems, nil if its owner does not report it.
	layout *eviction.LayoutReport
}

// Look observes the signals that r asks for, in full passes also the layout of the filesystems,
// unless it is settled. The error says why nothing can be concluded.
func (o *Observer) Look(ctx context.Context, r Request) (Seen, error) {
	asked := inScope(r.Scope, o.Thresholds.inForce)
	signals, layout := asked, r.Scope.Full && (!o.Thresholds.once || !o.Thresholds.asked)
	if layout {
		signals = withContainerFs(asked)
	}
	seen := o.observe(ctx, r, signals, layout)
	if err := ctx.Err(); err != nil {
		return Seen{}, err
	}
	thresholds, err := o.Thresholds.learn(seen.layout)
	switch {
	case err != nil && o.Thresholds.once:
		return Seen{}, err
	case err != nil:
		o.withoutLayout(seen.Observations, err)
		thresholds = o.Thresholds.inForce
	}
	seen.Asked, seen.Thresholds = asked, o.Thresholds.Served(r.Pin, thresholds)
	for s, observation := range seen.Observations {
		of := o.of(s)
		if was := of.observation; was.State == eviction.Observed && observation.Time.Sub(was.Time) >= paceOver {
			of.before = was
		}
		of.observation = observation
	}
	now := o.Now()
	for _, s := range asked {
		o.note(s, seen.Observations)
		o.of(s).contradiction.next(now, s, o.Thresholds.inForce, seen.Claims[s], o.Log, o.Metrics)
	}
	return seen, nil
}

// Again observes the signals of thresholds once more in a pass.
func (o *Observer) Again(ctx context.Context, r Request, thresholds []policy.Threshold) map[eviction.Signal]eviction.Observation {
	return o.observe(ctx, r, inScope(wake.Scope{Full: true}, thresholds), false).Observations
}

// inScope lists the signals of thresholds that a pass observes, each once, in their order.
func inScope(scope wake.Scope, thresholds []policy.Threshold) []eviction.Signal {
	var signals []eviction.Signal
	for _, t := range thresholds {
		_, woken := scope.Woken[t.Definition().Condition]
		if (scope.Full || woken) && !slices.Contains(signals, t.Signal) {
			signals = append(signals, t.Signal)
		}
	}
	return signals
}

// withoutLayout marks the disk signals as unknown while the layout is unknown. Other signals stay
// valid: the kubelet's manager does nothing at all then, and memory would run out meanwhile.
func (o *Observer) withoutLayout(observed map[eviction.Signal]eviction.Observation, why error) {
	o.Thresholds.logLayout("images", why.Error())
	for s := range observed {
		if d, _ := eviction.Builtin(s); d.Condition == eviction.DiskPressure {
			observed[s] = eviction.Observation{Signal: s, Err: why.Error()}
		}
	}
}

// note logs and counts the figure of a signal, and whether it has lost its observer (no plugin, or
// a failing one) or has one again.
func (o *Observer) note(s eviction.Signal, all map[eviction.Signal]eviction.Observation) {
	of, why := o.of(s), ""
	observation, ok := all[s]
	switch {
	case !ok:
		why = NoObserver
		of.observation = eviction.Observation{Signal: s, Err: NoObserver}
	case observation.State == eviction.Unknown:
		why = cmp.Or(observation.Err, "the plugin does not say why")
	}
	switch {
	case !ok || observation.State != eviction.Unknown:
		of.failing = time.Time{}
	case of.failing.IsZero():
		of.failing = time.Now()
	}
	before := of.why
	of.why = why
	o.Metrics.Unobserved(s, why != "")
	switch {
	case why == "" && before != "":
		o.Log.Info("signal is observed again", "signal", s, "by", of.by)
	case why != "" && before == "":
		o.Log.Warn("signal is not observed, its thresholds are not enforced", "signal", s, "reason", why)
	}
	if observation.State == eviction.Observed {
		o.Metrics.Observed(s, observation.Available, observation.Capacity)
		o.Log.Debug("signal observed", "signal", s, "available", observation.Available, "capacity", observation.Capacity, "components", observation.Components)
	}
}

// Last returns the last observation of s, zero if there is none.
func (o *Observer) Last(s eviction.Signal) eviction.Observation {
	if of := o.signals[s]; of != nil {
		return of.observation
	}
	return eviction.Observation{}
}

// paceOver is the least time between two samples that tell the pace of a signal: what falls in a moment may be noise.
const paceOver = 100 * time.Millisecond

// Left returns the time until nothing is left of s if it falls on as between two samples, 0 if it does not fall or that is not
// known.
func (o *Observer) Left(s eviction.Signal) time.Duration {
	of := o.of(s)
	now, was := of.observation, of.before
	over := now.Time.Sub(was.Time) // negative if the clock was set back
	if now.State != eviction.Observed || was.State != eviction.Observed || now.Available >= was.Available || over <= 0 {
		return 0
	}
	return max(1, time.Duration(float64(over)*float64(max(0, now.Available))/float64(was.Available-now.Available)))
}

// Latest returns the last observations of all signals.
func (o *Observer) Latest() map[eviction.Signal]eviction.Observation {
	all := make(map[eviction.Signal]eviction.Observation, len(o.signals))
	for s, of := range o.signals {
		if of.observation.Signal != "" {
			all[s] = of.observation
		}
	}
	return all
}

// Unobserved reports whether the last attempt to observe s failed.
func (o *Observer) Unobserved(s eviction.Signal) bool {
	of := o.signals[s]
	return of != nil && of.why != ""
}

// Statuses returns the last observations of all signals with their observers and contradictions.
func (o *Observer) Statuses() []SignalStatus {
	rows := decision.Observations(o.Latest())
	all := make([]SignalStatus, len(rows))
	for i, row := range rows {
		s := o.signals[row.Signal]
		all[i] = SignalStatus{Observation: row, UnknownSince: s.failing}
		if row.State != decision.StateUnknown {
			all[i].ObservedBy = s.by
		}
		if s.contradiction.Lasting {
			all[i].Contradiction = new(s.contradiction)
		}
	}
	return all
}
