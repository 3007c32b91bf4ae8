package loop

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/core/wake"
	"github.com/evictd/evictd/shared/eviction"
)

// ErrNoThreshold is returned for a signal without a threshold in force.
var ErrNoThreshold = errors.New("no threshold is in force for the signal")

var (
	// errEnded is returned for a pass requested after the end of the loop.
	errEnded     = errors.New("the eviction manager has ended")
	errReentered = errors.New("called from a function that the eviction manager calls and waits for: call it from another goroutine and do not wait for it")
)

// Poll interval and timeout of the kubelet's wait for clean-up (podCleanupPollFreq,
// podCleanupTimeout).
const (
	cleanupPoll = time.Second
	cleanupMost = 30 * time.Second
)

// SimulatedDeadline is the shortest deadline with simulated time: a slow machine must not change a
// decision.
const SimulatedDeadline = time.Minute

// A Loop is the eviction manager's loop. Run it once.
type Loop struct {
	options Options

	// calls and requests are functions to run between two passes. In the kubelet's pacing, requests
	// also wait for what the last pass began.
	calls, requests chan func(context.Context)
	// done receives the finished background actions.
	done   chan action
	ended  chan struct{}
	runsIn atomic.Uint64 // the goroutine of Run
	status status

	// The rest belongs to the goroutine of Run.
	settings   Settings
	observer   *observe.Observer
	chooser    *choose.Chooser
	victims    *victim.Set
	streams    *wake.Streams
	schedule   wake.Schedule
	state      policy.State
	conditions savedConditions
	manifests  manifests
	limits     limits
	busy       map[eviction.Condition]bool // an action for it runs in the background
	passes     uint64                      // counts the passes begun, numbers them
	budget     *observe.Budget             // of the last pass
	working    sync.WaitGroup
}

// New returns a loop that has not looked at anything yet.
func New(o Options) *Loop {
	o.Options.Metrics = o.Metrics
	l := &Loop{
		options: o,
		calls:   make(chan func(context.Context)), requests: make(chan func(context.Context)), done: make(chan action), ended: make(chan struct{}),
		state: policy.Restore(o.Restored.Conditions), busy: map[eviction.Condition]bool{},
		status: status{metrics: o.Metrics, log: o.Log}, manifests: manifests{read: o.Manifests, came: make(chan []pods.Problem)},
	}
	if o.Alive == nil {
		l.options.Alive, l.options.AliveEvery = func() {}, time.Hour
	}
	if o.PodUsage == nil {
		l.options.PodUsage = func(eviction.Signal, bool, iter.Seq2[*eviction.Pod, int64], time.Time) {}
	}
	l.observer = observe.New(o.Options)
	minDeadline := time.Duration(0)
	if o.Simulated {
		minDeadline = SimulatedDeadline
	}
	l.chooser = choose.New(choose.Options{
		Options: o.Options, Pods: o.Pods, Responsiveness: &l.observer.Responsiveness, MinDeadline: minDeadline,
	})
	l.victims = victim.NewSet(victim.Options{
		Killer: o.Killer, Recorder: o.Recorder, NodeEvent: l.nodeEvent, Holder: o.Holder, Journal: o.Journal, Metrics: o.Metrics, Log: o.Log,
		Moment: l.moment, Recorded: o.Records != nil, Restored: o.Restored.Kills, Owed: o.Restored.Owed, SaveOwed: func(all []policy.Owed) error { return o.Journal.SaveOwed(all) },
	})
	l.streams = wake.NewStreams(o.Log, o.Metrics.CallFailed, l.chooser.Prepare)
	l.configure(o.Settings)
	return l
}

// Run makes passes, when due or requested, until ctx ends. Then it gives kills under way a few more
// seconds.
func (l *Loop) Run(ctx context.Context) {
	if ctx.Err() != nil { // ended before it began: no caller is to wait for a pass
		close(l.ended)
		return
	}
	l.victims.Begin(ctx)
	l.chooser.Began = time.Now()
	l.runsIn.Store(goroutine())
	select { // The change signal for the first plugins is no news.
	case <-l.options.Changed:
	default:
	}
	l.followPlugins(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		l.options.Alive()
		wait, mayPass := l.options.AliveEvery, l.settings.pacer().mayPass(l)
		if l.settings.MonitoringInterval > 0 && mayPass {
			if scope, ok := l.schedule.Due(now); ok {
				l.pass(ctx, scope)
				continue
			}
			wait = min(wait, l.schedule.Next(now).Sub(now))
		}
		timer.Reset(wait)
		requests := l.requests
		if !mayPass {
			requests = nil
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.streams.Notify():
			l.schedule.Wake(l.streams.Take())
		case <-l.options.Changed:
			l.followPlugins(ctx)
			l.lookAtAll()
		case call := <-l.calls:
			call(ctx)
		case r := <-l.victims.Reports():
			if l.victims.Handle(r) {
				l.schedule.Look(time.Now())
			}
		case a := <-l.done:
			l.concluded(ctx, a)
		case problems := <-l.manifests.came:
			if l.manifests.reading = false; !l.manifests.overtaken {
				l.status.change(func(next *Snapshot) { l.status.problems(next, problems) })
			}
		case call := <-requests:
			call(ctx)
		}
	}
	close(l.ended)
	l.streams.Stop()
	l.working.Wait()
	l.victims.Drain()
	l.record(Conclusion{Victims: l.victims.History()}) // with the outcome of the last kills
}

// lookAtAll schedules a full pass with a check of limits for now.
func (l *Loop) lookAtAll() {
	l.schedule.Look(time.Now())
	l.limits.next = time.Time{}
}

// configure puts settings in force. Unchanged thresholds keep their timers.
func (l *Loop) configure(s Settings) {
	l.settings = s
	if !s.DryRun {
		l.victims.EndPretence(func(*victim.Victim) bool { return true })
	}
	gone := l.observer.Configure(s.Config)
	l.status.change(func(next *Snapshot) {
		next.Signals = slices.DeleteFunc(slices.Clone(next.Signals), func(s observe.SignalStatus) bool { return slices.Contains(gone, s.Signal) })
	})
}

// followPlugins opens the wake streams for the current plugins and thresholds.
func (l *Loop) followPlugins(ctx context.Context) {
	if l.settings.MonitoringInterval == 0 {
		return
	}
	pin := l.pin()
	defer pin.Release()
	var watched []wake.Watched
	for _, t := range l.observer.Thresholds.InForce() {
		if c := t.Definition().Condition; c != eviction.MemoryPressure || l.settings.MemoryNotifications {
			watched = append(watched, wake.Watched{WatchThreshold: eviction.WatchThreshold{Signal: t.Signal, Threshold: t.Wire()}, Condition: c})
		}
	}
	l.streams.Update(ctx, func(s eviction.Signal) []*registry.Instance { return pin.Providers(s, eviction.CanWatch) }, watched)
}

// pin pins the running plugins and puts their definitions of custom signals in force.
func (l *Loop) pin() *registry.Pin {
	pin := l.options.Pin()
	for s, former := range l.observer.Thresholds.Define(pin) { // what was counted in its unit means nothing any more
		l.chooser.Forget(s)
		l.schedule.Forget(former.Condition)
	}
	return pin
}

// moment returns now on the clocks that sample times use. An embedding program's clock is unrelated
// to the machine's.
func (l *Loop) moment() policy.Moment {
	m := policy.Moment{Time: l.options.Now()}
	if l.options.CheckSampleTimes {
		m.BootNanos = l.options.BootNanos()
	}
	return m
}

// Apply puts new settings in force between two passes, after waiting for one that is under way. It
// returns an error if the loop has ended.
func (l *Loop) Apply(s Settings) error {
	return call(l.calls, nil, l.ended, func(ctx context.Context) {
		l.configure(s)
		l.followPlugins(ctx)
		l.lookAtAll()
	})
}

// Synchronize makes one full pass and returns when everything it decided on is done, including
// reclaim and kills, like the kubelet's synchronize. The error says why the pass concluded nothing.
func (l *Loop) Synchronize(ctx context.Context) (result PassResult, err error) {
	if err := l.Reentered(); err != nil {
		return PassResult{}, err
	}
	if ended := call(l.requests, ctx.Done(), l.ended, func(context.Context) { result, err = l.synchronize(ctx) }); ended != nil {
		return PassResult{}, cmp.Or(ctx.Err(), ended)
	}
	return result, err
}

// call runs f in the loop's goroutine and waits for it. It returns an error if the loop ended or
// the caller gave up before f began.
func call(calls chan<- func(context.Context), givenUp, ended <-chan struct{}, f func(context.Context)) error {
	called := make(chan struct{})
	select {
	case calls <- func(ctx context.Context) { defer close(called); f(ctx) }:
		<-called
		return nil
	case <-givenUp:
	case <-ended:
	}
	return errEnded
}

// Reentered returns an error if it is called from the loop's own goroutine, that is from a function
// of the embedding program that a pass called: waiting for the loop there would deadlock.
func (l *Loop) Reentered() error {
	if l.runsIn.Load() == goroutine() {
		return errReentered
	}
	return nil
}

// goroutine returns the number of this goroutine, as stacks show it ("goroutine 7 [...").
func goroutine() uint64 {
	var buf [32]byte
	fields := bytes.Fields(buf[:runtime.Stack(buf[:], false)])
	n, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return n
}

// AwaitCleanup waits until nothing is left of the pods that a pass evicted. Like the kubelet it
// polls each second and gives up after half a minute.
func (l *Loop) AwaitCleanup(ctx context.Context, r PassResult) error {
	running := func(v victim.Victim) bool {
		look, done := context.WithTimeout(ctx, victim.LookTimeout)
		defer done()
		finished, err := l.options.Killer.Finished(look, v)
		return err != nil || !finished
	}
	for waited := cleanupPoll; ; waited += cleanupPoll {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.options.After(cleanupPoll):
		}
		if !slices.ContainsFunc(r.Evicted, running) || waited >= cleanupMost {
			return nil
		}
	}
}

// Snapshot returns the loop's state after its last pass. It may be called from anywhere.
func (l *Loop) Snapshot() *Snapshot {
	s := *l.status.now()
	s.Evictions = l.victims.Evictions()
	return &s
}

// Under reports whether c is in force. It may be called from anywhere.
func (l *Loop) Under(c eviction.Condition) bool {
	return slices.Contains(l.status.now().Conditions, c)
}
