package loop

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// firstRetry is the wait before a look that follows one with figures missing;
// it doubles up to the monitoring interval.
const firstRetry = 100 * time.Millisecond

// A Loop is the eviction manager's loop. Run it once.
type Loop struct {
	Options

	box      *wakeBox
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
	watches     *watches
	pacers      map[family]*pacer
	pending     map[family]string
	nextFull    time.Time
	retry       time.Duration
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
		box:        newWakeBox(),
		reloads:    make(chan reload),
		requests:   make(chan request),
		done:       make(chan func()),
		ended:      make(chan struct{}),
		occupied:   map[family]bool{},
		latest:     map[eviction.Signal]eviction.Observation{},
		pacers:     map[family]*pacer{},
		pending:    map[family]string{},
		lastUsage:  lastUsage{bySignal: map[eviction.Signal]map[string]eviction.Measurement{}},
		met:        map[policy.Key]bool{},
		unobserved: map[eviction.Signal]string{},
		standing:   map[policy.Key]bool{},
		blind:      map[eviction.Signal]*blindness{},
		silence:    silence{calls: map[*supervisor.Instance]int{}},
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
	l.watches = &watches{box: l.box, family: l.family, log: o.Log, failed: o.Metrics.CallFailed, streams: map[watchKey]watch{}}
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
	l.nextFull = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		if look, ok := l.due(now); ok {
			if look.full {
				l.readManifests(ctx)
			}
			l.pass(ctx, look)
			continue
		}
		timer.Reset(l.next(now).Sub(now))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.box.notify:
			maps.Copy(l.pending, l.box.take())
		case <-l.Changed:
			l.followPlugins(ctx)
			l.nextFull = time.Now()
			l.limits.next = time.Time{}
		case r := <-l.reloads:
			l.apply(ctx, r.settings)
			close(r.applied)
		case r := <-l.victims.Reports():
			if l.victims.Handle(r) {
				l.nextFull = time.Now()
			}
		case done := <-l.done:
			done()
		case r := <-l.asked():
			l.serve(r)
		}
	}
	close(l.ended)
	l.watches.stop()
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
	l.nextFull = time.Now()
	l.limits.next = time.Time{}
}

// A look is what a pass looks at and why.
type look struct {
	// full passes look at every family, others at those in families.
	full     bool
	families map[family]string
}

func (k look) trigger() string {
	if k.full {
		return "interval"
	}
	return "wake"
}

func (k look) causes() string {
	return strings.Join(slices.Sorted(maps.Values(k.families)), ",")
}

// crossing reports whether a plugin says that a threshold was crossed.
func (k look) crossing() bool {
	for _, cause := range k.families {
		if cause != causeWatchStarted {
			return true
		}
	}
	return false
}

// cheapToMeasure reports whether what pods use of f's resource is read in the pass
// itself. Of a disk it takes seconds to find out, and of what a vendor's plugin knows
// it may.
func cheapToMeasure(f family) bool { return f == eviction.MemoryPressure || f == eviction.PIDPressure }

// ranksAtOnce reports whether a family was woken whose victim is chosen in the pass
// itself, from its own list of pods.
func (k look) ranksAtOnce() bool {
	for f := range k.families {
		if cheapToMeasure(f) {
			return true
		}
	}
	return false
}

// due returns the pass that should run now, if one should.
func (l *Loop) due(now time.Time) (look, bool) {
	if l.OnRequest || l.synchronizing() {
		return look{}, false
	}
	k := look{full: !l.nextFull.After(now), families: map[family]string{}}
	for f, cause := range l.pending {
		if k.full || !l.pacer(f).earliest(now).After(now) {
			k.families[f] = cause
			delete(l.pending, f)
		}
	}
	return k, k.full || len(k.families) > 0
}

// next returns when something becomes due.
func (l *Loop) next(now time.Time) time.Time {
	if l.OnRequest || l.synchronizing() {
		return now.Add(time.Hour)
	}
	at := l.nextFull
	for f := range l.pending {
		if t := l.pacer(f).earliest(now); t.Before(at) {
			at = t
		}
	}
	return at
}

func (l *Loop) pacer(f family) *pacer {
	p, ok := l.pacers[f]
	if !ok {
		p = &pacer{}
		l.pacers[f] = p
	}
	return p
}

// plan sets when the next full pass runs: after the interval, at the end of a
// grace period that is running, or soon when figures were missing. After a pass that
// was not full itself it is never put off: whoever keeps waking one family must not
// keep the host from looking at the others.
func (l *Loop) plan(full, incomplete bool, graceEnds time.Duration) {
	now, wait := time.Now(), l.Settings.MonitoringInterval
	if incomplete {
		l.retry = min(max(2*l.retry, firstRetry), wait)
		wait = l.retry
	} else {
		l.retry = 0
	}
	if graceEnds > 0 {
		wait = min(wait, graceEnds)
	}
	if at := now.Add(wait); full || at.Before(l.nextFull) {
		l.nextFull = at
	}
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
	l.watches.update(ctx, roster, watched)
}
