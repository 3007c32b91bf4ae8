package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/metrics"
	"github.com/evictd/evictd/host/internal/observe"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/recorder"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

// A node is everything around a loop: plugins in this process, a runtime in
// memory, and a record of what was done, with times since the start.
type node struct {
	t     *testing.T
	start time.Time
	loop  *Loop
	stop  func()

	mu        sync.Mutex
	available int64
	observe   func() (eviction.ObserveReply, error) // overrides available
	measure   error
	wakes     []func(eviction.Wake)
	watched   [][]eviction.WatchThreshold
	pods      []pods.Pod
	usage     map[string]int64
	running   map[string]bool
	podsErr   error
	problems  []pods.Problem
	// gone is when pods ended, by uid.
	gone map[string]time.Time
	// dies is the time from a kill to the end of the pod, by uid; default at once.
	dies map[string]time.Duration
	// stuck: not even the end of the grace period ends a pod before that.
	stuck   bool
	killErr error
	journal map[string]rundir.Kill
	records *recorder.Keeper
	saveErr error
	did     []string

	listings int
	// volumes are those of pods, by uid, that nobody has removed yet.
	volumes   map[string]bool
	onRequest bool
	skipSteps string // why steps of plugins are not run
	changed   chan struct{}
	// down holds the errors of signals that are down; fallback reads signals for the host by
	// itself.
	sampleTimes bool
	down        map[eviction.Signal]error
	starting    bool
	assigned    eviction.Signal
	fallback    observe.Fallback
	stands      bool
	// manifests returns the problems of manifests at the start; it may be nil.
	manifests func() []pods.Problem
	// alive is called at each turn, if not nil; conditions after each pass.
	alive      func()
	aliveEvery time.Duration
	conditions func([]eviction.Condition)
	log        lockedBuffer
	rankers    []*registry.Instance
	providers  []*registry.Instance
	plugins    *registry.Current
}

// A lockedBuffer is read by a test while the loop writes.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newNode makes a node of 8Gi with 4Gi available and the memory plugin.
func newNode(t *testing.T) *node {
	n := &node{
		t: t, start: time.Now(), available: 4 * gi,
		usage: map[string]int64{}, running: map[string]bool{}, gone: map[string]time.Time{}, dies: map[string]time.Duration{},
		journal: map[string]rundir.Kill{}, changed: make(chan struct{}, 1), plugins: registry.NewCurrent(),
	}
	memory := &eviction.Plugin{
		Name: "memory", Observer: n, Measurer: n, Watcher: n,
		Ranker: ranker(func(r eviction.RankRequest) ([]eviction.Ranked, error) {
			return rank.Sort(r.Candidates, rank.For(r.Signal)), nil
		}),
		Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}},
	}
	n.providers = []*registry.Instance{{Name: "memory", Generation: 1, Plugin: memory}}
	return n
}

// A ranker need not look at who is a candidate: of its order only those count, as in
// replies that the supervisor has checked.
type ranker func(eviction.RankRequest) ([]eviction.Ranked, error)

func (f ranker) Rank(_ context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
	order, err := f(r)
	return slices.DeleteFunc(order, func(p eviction.Ranked) bool {
		return !slices.ContainsFunc(r.Candidates, func(c eviction.Candidate) bool { return c.Pod.UID == p.UID })
	}), err
}

// addRanker puts a custom ranker before the built-in one.
func (n *node) addRanker(name string, f ranker) {
	p := &eviction.Plugin{Name: name, Ranker: f, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}}}
	n.rankers = append(n.rankers, &registry.Instance{Name: name, Generation: 1, Plugin: p})
}

// addPod starts a pod that uses so much memory and requests none.
func (n *node) addPod(name string, usage int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	api := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	n.pods = append(n.pods, pods.Pod{API: api, HasManifest: true, Row: eviction.Pod{UID: string(api.UID), Namespace: "default", Name: name}})
	n.usage[string(api.UID)] = usage
	n.running[string(api.UID)] = true
}

// Observe implements eviction.Observer.
func (n *node) Observe(_ context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.observe != nil {
		return n.observe()
	}
	n.note("observe")
	return eviction.ObserveReply{Observations: []eviction.Observation{{
		Signal: r.Signals[0], State: eviction.Observed, Available: n.available, Capacity: 8 * gi, Time: time.Now(),
	}}}, nil
}

// Measure implements eviction.Measurer.
func (n *node) Measure(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.measure != nil {
		return n.measure
	}
	for _, p := range r.Pods {
		emit(eviction.Measurement{
			UID: p.UID, State: eviction.Measured, WorkingSetBytes: eviction.Some(n.usage[p.UID]),
			Usage: []eviction.SignalUsage{{Signal: r.Signals[0], Value: n.usage[p.UID]}},
		})
	}
	return nil
}

// Watch implements eviction.Watcher.
func (n *node) Watch(ctx context.Context, r eviction.WatchRequest, wake func(eviction.Wake)) error {
	n.mu.Lock()
	n.wakes = append(n.wakes, wake)
	n.watched = append(n.watched, r.Thresholds)
	n.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// pin pins the plugins as they are now.
func (n *node) pin() *registry.Pin {
	n.mu.Lock()
	defer n.mu.Unlock()
	var plugins []registry.Plugin
	for _, i := range slices.Concat(n.rankers, n.providers) {
		plugins = append(plugins, registry.Plugin{Name: i.Name, Instance: i, Said: i.Plugin, Shadow: strings.HasPrefix(i.Name, "shadow-")})
	}
	for s, why := range n.down {
		plugins = append(plugins, registry.Plugin{Name: "down", Missing: why, Observes: []eviction.Signal{s}})
	}
	if n.starting {
		plugins = append(plugins, registry.Plugin{Name: "starting", Missing: errBroken, Observes: []eviction.Signal{eviction.MemoryAvailable}, FirstStart: true})
	}
	assignment := registry.Assignment{}
	if n.assigned != "" {
		assignment[n.assigned] = map[string]string{"observe": plugins[0].Name}
	}
	n.plugins.Publish(registry.New(plugins, assignment))
	return n.plugins.Pin()
}

// Active implements pods.Source.
func (n *node) Active(context.Context) (pods.Snapshot, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listings++
	s := pods.Snapshot{Problems: n.problems}
	for _, p := range n.pods {
		if n.running[p.Row.UID] {
			s.Pods = append(s.Pods, p)
		}
	}
	return s, n.podsErr
}

// Kill implements victim.Killer.
func (n *node) Kill(ctx context.Context, v victim.Victim) error {
	n.mu.Lock()
	uid := v.UID
	n.note("kill %s grace %d", v.Pod.Row.Name, v.GraceSeconds)
	wait, err := n.dies[uid], n.killErr
	n.mu.Unlock()
	if err != nil {
		return err
	}
	if !n.stuck {
		wait = min(wait, time.Duration(v.GraceSeconds)*time.Second)
	}
	select {
	case <-time.After(wait):
	case <-time.After(victim.Timeout(v.GraceSeconds)):
		return victim.ErrTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running[uid] || n.usage[uid] == 0 {
		n.running[uid] = false
		n.gone[uid] = time.Now()
		n.available += n.usage[uid]
		n.note("gone %s", v.Pod.Row.Name)
	}
	return nil
}

// Finished implements victim.Killer.
func (n *node) Finished(_ context.Context, v victim.Victim) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.running[v.UID], nil
}

// CleanedUp implements victim.Killer.
func (n *node) CleanedUp(_ context.Context, v victim.Victim) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.volumes[v.UID], nil
}

// NodeEvent implements Recorder.
func (n *node) NodeEvent(_, reason, _ string) { n.locked("node event %s", reason) }

// PodEvent implements Recorder.
func (n *node) PodEvent(p pods.Pod, _, reason, _ string, _ map[string]string) {
	n.locked("event %s %s", reason, p.Row.Name)
}

// SaveKill implements Journal.
func (n *node) SaveKill(k rundir.Kill) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note("journal %s", k.Name)
	if n.saveErr != nil {
		return n.saveErr
	}
	n.journal[k.UID] = k
	return nil
}

// RemoveKill implements Journal.
func (n *node) RemoveKill(uid string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.journal, uid)
	return nil
}

// SaveConditions implements Journal.
func (n *node) SaveConditions(map[eviction.Condition]time.Time) error { return nil }

func (n *node) locked(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note(format, args...)
}

// note records what was done; observations only count.
func (n *node) note(format string, args ...any) {
	n.did = append(n.did, fmt.Sprintf("%v ", time.Since(n.start))+fmt.Sprintf(format, args...))
}

// story returns what was done, less the observations.
func (n *node) story() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.did), func(s string) bool { return strings.HasSuffix(s, " observe") })
}

func (n *node) count(suffix string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := 0
	for _, s := range n.did {
		if strings.Contains(s, suffix) {
			c++
		}
	}
	return c
}

func (n *node) set(available int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.available = available
}

// wake sends a wake as the plugin would.
func (n *node) wake() {
	n.mu.Lock()
	wake := n.wakes[len(n.wakes)-1]
	n.mu.Unlock()
	wake(eviction.Wake{Signal: eviction.MemoryAvailable, Cause: "test"})
}

// settings returns evictd's defaults with a hard threshold of 1Gi.
func settings(t *testing.T, c policy.ThresholdConfig) Settings {
	t.Helper()
	thresholds, err := policy.ParseThresholds(c)
	if err != nil {
		t.Fatal(err)
	}
	return Settings{
		Config: observe.Config{Thresholds: thresholds}, TransitionPeriod: 5 * time.Minute, MonitoringInterval: 10 * time.Second,
		MemoryNotifications: true, Pacing: PacingOneVictim, RankVeto: VetoSoft, MaxPodGracePeriodSeconds: 120,
	}
}

func hard(value string) policy.ThresholdConfig {
	return policy.ThresholdConfig{Hard: map[string]string{"memory.available": value}}
}

func soft(value, grace string) policy.ThresholdConfig {
	return policy.ThresholdConfig{
		Soft:            map[string]string{"memory.available": value},
		SoftGracePeriod: map[string]string{"memory.available": grace},
	}
}

// run starts the loop; it ends with the test.
func (n *node) run(s Settings, restored rundir.State) {
	n.loop = New(Options{
		Settings: s, Pin: n.pin, Changed: n.changed, Pods: n, Killer: n, Recorder: n, Journal: n,
		After: time.After, BootNanos: func() int64 { return 0 }, TellConditions: true, OnRequest: n.onRequest, SkipStepsBecause: n.skipSteps, Explain: true, Restored: restored, Records: n.records,
		Holder: func(eviction.Signal) string { return `process 7 "db" with 6Gi` }, Manifests: n.manifests, Alive: n.alive, AliveEvery: n.aliveEvery, Conditions: n.conditions, Options: observe.Options{
			Metrics: metrics.New("test", ""), Log: slog.New(slog.NewTextHandler(io.MultiWriter(n.t.Output(), &n.log), &slog.HandlerOptions{Level: slog.LevelInfo})),
			Now: time.Now, Fallback: n.fallback, SourceStands: n.stands, CheckSampleTimes: n.sampleTimes,
		},
	})
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.loop.Run(ctx)
	}()
	n.stop = func() { cancel(); <-done }
	n.t.Cleanup(n.stop)
	synctest.Wait()
}

// settle lets the first passes go by and starts the story's clock.
func (n *node) settle() {
	n.after(2 * time.Second)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.start, n.did = time.Now(), nil
}

// after lets time pass.
func (n *node) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var errBroken = errors.New("broken")
