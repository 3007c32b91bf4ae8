package loop

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/host/internal/wake"
	"github.com/evictd/evictd/shared/eviction"
)

// A family is the set of signals that a wake asks to look at: those that raise
// the same condition.
type family = eviction.Condition

// A Loop is the eviction manager's loop. Run it once.
type Loop struct {
	Options

	box      *wake.Box
	reloads  chan reload
	requests chan request
	// done has what is to be done in the loop when work beside it has ended.
	done     chan func()
	ended    chan struct{}
	snapshot atomic.Pointer[Snapshot]
	began    time.Time     // of Run
	runsIn   atomic.Uint64 // the goroutine of Run
	// definitions are written by the goroutine of Run only.
	definitions atomic.Pointer[definitions]

	// The rest belongs to the goroutine of Run.
	state       policy.State
	filesystems filesystems
	limits      limits
	occupied    map[family]bool // a reclaim, or the choice of a victim, is under way beside the loop
	victims     *victim.Set
	latest      map[eviction.Signal]eviction.Observation // what was last observed
	streams     wake.Streams
	schedule    wake.Schedule
	passes      uint64 // begun, numbers them
	finished    uint64
	lastUsage   lastUsage
	met         map[policy.Key]bool // thresholds that were logged as met
	standing    map[policy.Key]bool // thresholds that were met by what was observed when they were last looked at
	unobserved  map[eviction.Signal]string
	blind       map[eviction.Signal]*blindness
	silence     silence
	observers   map[eviction.Signal]string // who observed a signal last
	contradict  contradictions
	saved       savedConditions
	reading     manifestReading
	working     sync.WaitGroup
}

type reload struct {
	settings Settings
	applied  chan struct{}
}

// New returns a loop that has not looked at anything yet.
func New(o Options) *Loop {
	l := &Loop{
		Options:    o,
		box:        wake.NewBox(),
		reloads:    make(chan reload),
		requests:   make(chan request),
		done:       make(chan func()),
		ended:      make(chan struct{}),
		occupied:   map[family]bool{},
		latest:     map[eviction.Signal]eviction.Observation{},
		lastUsage:  lastUsage{bySignal: map[eviction.Signal]map[string]eviction.Measurement{}},
		met:        map[policy.Key]bool{},
		unobserved: map[eviction.Signal]string{},
		standing:   map[policy.Key]bool{},
		blind:      map[eviction.Signal]*blindness{},
		silence:    silence{calls: map[*registry.Instance]int{}},
		observers:  map[eviction.Signal]string{},
		contradict: contradictions{bySignal: map[eviction.Signal]contradiction{}, log: o.Log, metrics: o.Metrics},
	}
	l.victims = victim.NewSet(victim.Options{
		Killer: o.Killer, Recorder: o.Recorder, Journal: o.Journal, Metrics: o.Metrics, Log: o.Log,
		Moment: l.moment, Restored: o.Restored.Kills,
	})
	l.victims.AsKubelet(o.Settings.Pacing == PacingKubelet)
	l.state = policy.Restore(o.Restored.Conditions)
	l.definitions.Store(&definitions{})
	l.derive()
	l.streams = wake.Streams{Box: l.box, Condition: l.family, Log: o.Log, Failed: o.Metrics.CallFailed}
	l.snapshot.Store(&Snapshot{})
	return l
}

// Run makes passes until ctx ends, when they are due or asked for. Kills in flight
// then get a few seconds more.
func (l *Loop) Run(ctx context.Context) {
	l.victims.Begin(ctx)
	l.began = time.Now()
	l.runsIn.Store(goroutine())
	select { // The change that brought the first plugins is no news.
	case <-l.Changed:
	default:
	}
	l.followPlugins(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		if scope, ok := l.due(now); ok {
			if scope.Full {
				l.readManifests(ctx)
			}
			l.pass(ctx, scope)
			continue
		}
		timer.Reset(l.next(now).Sub(now))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.box.Notify():
			l.schedule.Wake(l.box.Take())
		case <-l.Changed:
			l.followPlugins(ctx)
			l.schedule.Look(time.Now())
			l.limits.next = time.Time{}
		case r := <-l.reloads:
			l.apply(ctx, r.settings)
			close(r.applied)
		case r := <-l.victims.Reports():
			if l.victims.Handle(r) {
				l.schedule.Look(time.Now())
			}
		case done := <-l.done:
			done()
		case r := <-l.asked():
			l.serve(r)
		}
	}
	close(l.ended)
	l.streams.Stop()
	l.working.Wait()
	l.victims.Drain()
}

// synchronizing reports whether what a pass decided on is still being done and the
// kubelet's pacing has the next pass wait for it, as its synchronize and the wait for
// clean-up after it do.
func (l *Loop) synchronizing() bool {
	return l.Settings.Pacing == PacingKubelet && (len(l.occupied) > 0 || l.victims.Busy())
}

// asked are the requests for passes, none as long as another one is under way.
func (l *Loop) asked() <-chan request {
	if l.synchronizing() {
		return nil
	}
	return l.requests
}

// beside runs work in a goroutine, and what it returns in the loop.
func (l *Loop) beside(ctx context.Context, work func() (done func())) {
	l.working.Go(func() {
		done := work()
		select {
		case l.done <- done:
		case <-ctx.Done():
		}
	})
}

// Apply puts new settings in force between two passes: it waits for the one that is
// under way. Timers of thresholds that stay are kept. It is an error if the loop has
// ended.
func (l *Loop) Apply(s Settings) error {
	r := reload{settings: s, applied: make(chan struct{})}
	select {
	case l.reloads <- r:
		<-r.applied
		return nil
	case <-l.ended:
		return errEnded
	}
}

func (l *Loop) apply(ctx context.Context, s Settings) {
	former := l.Settings.Thresholds
	s.Thresholds = policy.Define(s.Thresholds, *l.definitions.Load())
	l.Settings = s
	l.victims.AsKubelet(s.Pacing == PacingKubelet)
	l.derive()
	for _, t := range former {
		if !slices.ContainsFunc(s.Thresholds, func(u policy.Threshold) bool { return u.Signal == t.Signal }) {
			l.Metrics.SignalGone(t.Signal)
			l.forget(t.Signal)
		}
	}
	l.followPlugins(ctx)
	l.schedule.Look(time.Now())
	l.limits.next = time.Time{}
}

// due returns what the pass looks at that should run now, if one should.
func (l *Loop) due(now time.Time) (wake.Scope, bool) {
	if l.OnRequest || l.synchronizing() {
		return wake.Scope{}, false
	}
	return l.schedule.Due(now)
}

// next returns when something becomes due.
func (l *Loop) next(now time.Time) time.Time {
	if l.OnRequest || l.synchronizing() {
		return now.Add(time.Hour)
	}
	return l.schedule.Next(now)
}

// followPlugins opens the wake streams that the present plugins and thresholds
// ask for.
func (l *Loop) followPlugins(ctx context.Context) {
	if l.OnRequest {
		return
	}
	roster := l.Pin()
	defer roster.Release()
	l.define(roster)
	var watched []eviction.WatchThreshold
	for _, t := range l.filesystems.inForce {
		if familyOf(t) == eviction.MemoryPressure && !l.Settings.MemoryNotifications {
			continue
		}
		watched = append(watched, eviction.WatchThreshold{Signal: t.Signal, Threshold: t.Wire()})
	}
	l.streams.Update(ctx, func(s eviction.Signal) []*registry.Instance { return roster.Providers(s, eviction.CanWatch) }, watched)
}
