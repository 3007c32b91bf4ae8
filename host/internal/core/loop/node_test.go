package loop

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

// A node is everything around a loop: plugins in this process, pods in memory, and a record of
// what was done, with times since the start. A test changes its parts without a lock while all
// goroutines wait, and lets them see it by after.
type node struct {
	t *testing.T
	// mu is for all parts: what a victim used is available in the moment of its end.
	mu      sync.Mutex
	memory  *memory
	runtime *podRuntime
	plugins *plugins
	journal *journal
	did     *diary
	log     lockedBuffer
	// options are those of the loop which a test sets.
	options Options
	loop    *Loop
	stop    func()
}

// newNode makes a node of 8Gi with 4Gi available and the memory plugin.
func newNode(t *testing.T) *node {
	n := &node{t: t, did: &diary{start: time.Now()}}
	n.memory = &memory{mu: &n.mu, did: n.did, available: 4 * gi}
	n.runtime = newRuntime(&n.mu, n.did, n.memory)
	n.memory.usage = n.runtime.usage
	n.plugins = newPlugins(&n.mu, n.memory)
	n.journal = newJournal(n.did)
	return n
}

// story runs f in a bubble with its own clock and two pods.
func story(t *testing.T, f func(t *testing.T, n *node)) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.runtime.addPod("small", 100*mi)
		n.runtime.addPod("big", 2*gi)
		f(t, n)
	})
}

// run starts the loop; it ends with the test.
func (n *node) run(s Settings) {
	o := n.options
	o.Settings, o.Pin, o.Changed, o.Pods, o.Killer, o.Recorder, o.Journal = s, n.plugins.pin, n.plugins.changed, n.runtime, n.runtime, n.did, n.journal
	o.After, o.BootNanos, o.Explain = time.After, func() int64 { return 0 }, true
	if o.TellConditions == nil {
		o.TellConditions = StatusEvent
	}
	o.Holder = func(eviction.Signal) string { return `process 7 "db" with 6Gi` }
	counts := metrics.New("test", "")
	o.Metrics, o.PodUsage, o.Now = counts, counts.Pods.Record, time.Now
	o.Log = slog.New(slog.NewTextHandler(io.MultiWriter(n.t.Output(), &n.log), &slog.HandlerOptions{Level: slog.LevelInfo}))
	n.loop = New(o)
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

// onRequest returns s with passes on request alone.
func onRequest(s Settings) Settings {
	s.MonitoringInterval = 0
	return s
}

// start starts the loop, lets the first passes go by and starts the story's clock.
func (n *node) start(s Settings) {
	n.run(s)
	n.settle()
}

func (n *node) settle() {
	n.after(2 * time.Second)
	n.did.start, n.did.done = time.Now(), nil
}

// after lets time pass. Whoever locks mu from here on sees what the test has changed.
func (n *node) after(d time.Duration) {
	n.mu.Lock()
	n.mu.Unlock() //nolint:staticcheck // it is the order that counts
	time.Sleep(d)
	synctest.Wait()
}

// apply reloads the settings.
func (n *node) apply(s Settings) {
	n.t.Helper()
	if err := n.loop.Apply(s); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) wantStory(want ...string) {
	n.t.Helper()
	if diff := cmp.Diff(want, n.did.story(), cmpopts.EquateEmpty()); diff != "" {
		n.t.Errorf("story (-want +got):\n%s", diff)
	}
}

func (n *node) wantKills(want ...string) {
	n.t.Helper()
	if got := n.did.kills(); !slices.Equal(got, want) {
		n.t.Errorf("kills %q, want %q", got, want)
	}
}

// signal returns what the status says of memory.available.
func (n *node) signal() observe.SignalStatus {
	for _, s := range n.loop.Snapshot().Signals {
		if s.Signal == eviction.MemoryAvailable {
			return s
		}
	}
	return observe.SignalStatus{}
}

// unobserved reports whether the status has a threshold of a signal that nobody observes.
func (n *node) unobserved() bool {
	return slices.ContainsFunc(n.loop.Snapshot().Thresholds, func(t decision.Threshold) bool { return t.Unobserved })
}

func (n *node) thresholdOf(s eviction.Signal) decision.Threshold {
	for _, th := range n.loop.Snapshot().Thresholds {
		if th.Signal == s {
			return th
		}
	}
	n.t.Fatalf("no threshold of %s in the status", s)
	return decision.Threshold{}
}

// metric returns the first line of the metrics that begins so.
func (n *node) metric(prefix string) string {
	for line := range strings.Lines(exposition(n.loop)) {
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// record keeps the conclusions of the loop and returns the last one with a victim.
func (n *node) record() *records {
	r := &records{}
	n.options.Records = r
	return r
}

// victimOf runs one eviction and returns who went and who ranked.
func (n *node) victimOf(s Settings) (pod, by string) {
	n.start(s)
	n.memory.falls(gi / 2)
	n.after(3 * time.Second)
	e := n.loop.Snapshot().Evictions
	if len(e) == 0 {
		return "", ""
	}
	return e[0].Pod, e[0].Ranker
}

// decidedBefore has a former host have decided so long ago that a pod goes.
func (n *node) decidedBefore(k victim.Kill, ago time.Duration) {
	k.UID, k.Namespace, k.GraceSeconds = "uid-"+k.Name, "default", 1
	k.DecidedAt, k.GraceEnds = time.Now().Add(-ago), time.Now().Add(time.Second-ago)
	n.journal.kills[k.UID] = k
	n.options.Restored.Kills = append(n.options.Restored.Kills, k)
}

// settings returns evictd's defaults with such thresholds.
func settings(t *testing.T, c policy.ThresholdConfig) Settings {
	t.Helper()
	thresholds, err := policy.ParseThresholds(c, spareSignal, wearSignal)
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
