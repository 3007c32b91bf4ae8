package loop

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/shared/eviction"
)

// A laggard is a vendor's plugin for memory whose calls take their time, by the name of the call.
// Each calls tick until that reports false, and then answers.
type laggard struct {
	n     *node
	ticks map[string]func(call int) (time.Duration, bool)
	steps int
	// of is the signal that it serves, by default memory.
	of    eviction.Signal
	armed atomic.Bool
}

func forever(d time.Duration) func(int) (time.Duration, bool) {
	return func(int) (time.Duration, bool) { return d, true }
}

func once(d time.Duration) func(int) (time.Duration, bool) {
	return func(n int) (time.Duration, bool) { return d, n == 0 }
}

// lag waits, with a sign of life after each tick.
func (v *laggard) lag(ctx context.Context, call string, alive func()) error {
	tick := v.ticks[call]
	for n := 0; tick != nil && v.armed.Load(); n++ {
		d, ok := tick(n)
		if !ok {
			break
		}
		if err := wait(ctx, d); err != nil {
			return err
		}
		alive()
	}
	return nil
}

func (v *laggard) Observe(ctx context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	if err := v.lag(ctx, "observe", func() {}); err != nil {
		return eviction.ObserveReply{}, err
	}
	return v.n.memory.Observe(ctx, r)
}

func (v *laggard) Measure(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	at := 0
	one := func() {
		emit(eviction.Measurement{UID: r.Pods[at%len(r.Pods)].UID, State: eviction.MeasurementUnknown})
		at++
	}
	if err := v.lag(ctx, "measure", one); err != nil {
		return err
	}
	return v.n.memory.Measure(ctx, r, emit)
}

func (v *laggard) Rank(ctx context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
	if err := v.lag(ctx, "rank", func() {}); err != nil {
		return nil, err
	}
	return v.n.plugins.builtin[0].Plugin.Ranker.Rank(ctx, r)
}

func (v *laggard) Reclaim(ctx context.Context, _ eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	released := int64(0)
	err := v.lag(ctx, "reclaim", func() { released++; progress(eviction.Reclaimed{Bytes: released}) })
	return eviction.Reclaimed{Bytes: 1}, err
}

// addLaggard adds a plugin with all capabilities, called as by the supervisor: with its deadlines
// and its standby.
func (n *node) addLaggard(name string, v *laggard) {
	v.n = n
	signal := eviction.SignalSpec{Signal: cmp.Or(v.of, eviction.MemoryAvailable)}
	for i := range v.steps {
		signal.ReclaimSteps = append(signal.ReclaimSteps, eviction.ReclaimStep{Name: fmt.Sprintf("%s.example/%d", name, i)})
	}
	var slowness client.Slowness
	c := client.New(client.Config{Name: name, Timeouts: client.Timeouts{}.WithDefaults(), Asked: client.NewAsked(), Log: slog.New(slog.DiscardHandler), Report: func(r client.Report) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if slowness.Add(time.Now(), r.Delayed, r.Overspent) {
			n.plugins.slow[name] = true
		}
	}})
	err := c.Describe(n.t.Context(), client.Configuration{}, func(context.Context, []byte) (eviction.Plugin, error) {
		p := eviction.Plugin{Name: name, Observer: v, Measurer: v, Ranker: v, Signals: []eviction.SignalSpec{signal}}
		if v.steps > 0 {
			p.Reclaimer = v
		}
		return p, nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	if n.plugins.slow == nil {
		n.plugins.slow = map[string]bool{}
	}
	n.plugins.add(c.Plugin()).Overspent = c.Overspent
}

// delays runs shortages of memory a minute apart, each while an armed plugin that does not observe
// in time has a full pass wait, and returns how late the pod was chosen in each.
func (n *node) delays(c policy.ThresholdConfig, shortages int, of ...*laggard) (all []time.Duration) {
	for i := range shortages {
		n.runtime.addPod(fmt.Sprintf("hog-%d", i), 3*gi)
	}
	n.start(settings(n.t, c))
	for i := range shortages {
		n.after(time.Minute - time.Since(n.did.start)%time.Minute + 7*time.Second)
		for _, v := range of {
			v.armed.Store(true)
		}
		n.after(time.Second + time.Second/3)
		began := time.Now()
		n.memory.falls(gi / 2)
		for k := 1; len(n.did.kills()) <= i && time.Since(began) < 50*time.Second; k++ {
			if n.after(10 * time.Millisecond); k%20 == 0 {
				n.memory.wake() // as the plugin does while memory is short
			}
		}
		all = append(all, time.Since(began).Round(10*time.Millisecond))
	}
	return all
}

// A step for memory that hung, or reported progress for ever, cost 30 s in each shortage, and an
// endless measurement 5 s; two such calls cost both.
func TestNoPluginMakesAHardEvictionASecondLate(t *testing.T) {
	type ticks = map[string]func(int) (time.Duration, bool)
	hangs, trickles := forever(time.Hour), forever(400*time.Millisecond)
	for name, c := range map[string]struct {
		plugins []*laggard
		// standby: it is put last, so that later shortages do not wait.
		standby bool
	}{
		"observe hangs":                        {[]*laggard{{ticks: ticks{"observe": hangs}}}, true},
		"observe is slow":                      {[]*laggard{{ticks: ticks{"observe": once(900 * time.Millisecond)}}}, true},
		"measure hangs":                        {[]*laggard{{ticks: ticks{"measure": hangs}}}, true},
		"measure trickles":                     {[]*laggard{{ticks: ticks{"measure": trickles}}}, true},
		"measure begins late":                  {[]*laggard{{ticks: ticks{"measure": once(4900 * time.Millisecond)}}}, true},
		"rank hangs":                           {[]*laggard{{ticks: ticks{"rank": hangs}}}, true},
		"each call takes its part":             {[]*laggard{{ticks: ticks{"observe": once(400 * time.Millisecond), "measure": once(400 * time.Millisecond), "rank": once(400 * time.Millisecond)}}}, true},
		"a step hangs":                         {[]*laggard{{steps: 1, ticks: ticks{"reclaim": hangs}}}, true},
		"a step makes progress for ever":       {[]*laggard{{steps: 1, ticks: ticks{"reclaim": forever(time.Second)}}}, true},
		"many steps that bring nothing":        {[]*laggard{{steps: 100, ticks: ticks{"reclaim": once(50 * time.Millisecond)}}}, true},
		"a step hangs, and then a measurement": {[]*laggard{{steps: 1, ticks: ticks{"reclaim": hangs, "measure": trickles}}}, true},
		"two plugins, a step and a ranking":    {[]*laggard{{steps: 1, ticks: ticks{"reclaim": hangs}}, {ticks: ticks{"rank": hangs, "measure": hangs}}}, false},
		"two plugins, a step and an observer":  {[]*laggard{{steps: 1, ticks: ticks{"reclaim": hangs}}, {ticks: ticks{"observe": once(900 * time.Millisecond)}}}, false},
		"a step, and an observer in time":      {[]*laggard{{steps: 1, ticks: ticks{"reclaim": hangs}}, {ticks: ticks{"observe": once(450 * time.Millisecond)}}}, false},
		"two plugins that observe":             {[]*laggard{{ticks: ticks{"observe": hangs}}, {ticks: ticks{"observe": once(700 * time.Millisecond), "measure": trickles}}}, false},
		"three plugins with a third each": {[]*laggard{
			{steps: 1, ticks: ticks{"reclaim": once(400 * time.Millisecond)}},
			{steps: 1, ticks: ticks{"reclaim": once(400 * time.Millisecond)}},
			{steps: 1, ticks: ticks{"reclaim": once(400 * time.Millisecond)}},
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				for i, v := range c.plugins {
					n.addLaggard(fmt.Sprintf("acme-%d", i), v)
				}
				got := n.delays(hard("1Gi"), 3, c.plugins...)
				t.Logf("%s: late by %v", name, got)
				if slices.Max(got) > time.Second+20*time.Millisecond {
					t.Errorf("late by %v, want a second at most", got)
				}
				if c.standby && (!n.plugins.slow["acme-0"] || got[2] > 50*time.Millisecond) {
					t.Errorf("late by %v, on standby: %v, want the plugin put last", got, n.plugins.slow)
				}
			})
		})
	}
}

// The twins: who answers in time decides, keeps its place, and spares the pod.
func TestAPluginThatAnswersInTimeIsNotCut(t *testing.T) {
	type ticks = map[string]func(int) (time.Duration, bool)
	late := once(100 * time.Millisecond)
	story(t, func(t *testing.T, n *node) {
		v := &laggard{steps: 1, ticks: ticks{"observe": late, "measure": late, "rank": late, "reclaim": late}}
		n.addLaggard("acme", v)
		n.delays(hard("1Gi"), 3, v)
		for _, v := range n.loop.Snapshot().Evictions {
			if v.Ranker != "acme" {
				t.Errorf("%s was ranked by %s, want acme", v.Pod, v.Ranker)
			}
		}
		if n.plugins.slow["acme"] {
			t.Error("it is on standby")
		}
	})
	story(t, func(t *testing.T, n *node) {
		n.plugins.addStep("acme", "drop-cache", func(eviction.ReclaimRequest) (eviction.Reclaimed, error) {
			time.Sleep(900 * time.Millisecond)
			n.memory.set(3 * gi)
			return eviction.Reclaimed{}, nil
		}, eviction.MemoryAvailable)
		n.start(settings(t, hard("1Gi")))
		n.memory.falls(gi / 2)
		n.after(time.Minute)
		n.wantKills()
	})
}

// A step that takes longer is not cut off, so that it may spare the next pod. Under a soft
// threshold the pod waits for it.
func TestASlowStepRunsOnBesideTheChoice(t *testing.T) {
	type ticks = map[string]func(int) (time.Duration, bool)
	for name, c := range map[string]struct {
		of   policy.ThresholdConfig
		kill string
	}{
		"hard": {hard("1Gi"), "1s kill big"},
		"soft": {soft("1Gi", "2s"), "12s kill big"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				v := &laggard{steps: 1, ticks: ticks{"reclaim": once(10 * time.Second)}}
				v.armed.Store(true)
				n.addLaggard("acme", v)
				n.start(settings(t, c.of))
				n.memory.falls(gi / 2)
				n.after(20 * time.Second)
				if kills := n.did.kills(); len(kills) != 1 || !strings.HasPrefix(kills[0], c.kill) {
					t.Errorf("kills %q, want %s", kills, c.kill)
				}
				if text := n.log.String(); !strings.Contains(text, `msg="reclaim step ended" signal=memory.available step=acme.example/0 by=acme bytesFreed=1 inodesFreed=0 tookSeconds=10`) {
					t.Error("the log does not tell of the step's end")
				}
			})
		})
	}
}

// For disks a kubelet collects garbage first. A vendor's calls have so long together, and then no
// time: its step comes after the built-in ones.
func TestCustomPluginsShareTheirTimeForADisk(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.volumes["uid-big"] = 10 * gi
		hangs := forever(20 * time.Second)
		v := &laggard{steps: 1, of: eviction.NodeFsAvailable, ticks: map[string]func(int) (time.Duration, bool){"reclaim": hangs, "measure": hangs, "rank": hangs}}
		n.addLaggard("acme", v)
		acme := n.plugins.custom[0].Plugin
		acme.Observer = nil
		v.armed.Store(true)
		n.start(diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10Gi"}}))
		d.set(gi)
		n.after(41 * time.Second)
		n.wantKills("38s kill big grace 1") // 8 s until it is seen
		if !n.plugins.slow["acme"] {
			t.Error("the plugin is not on standby")
		}
		n.did.done = nil
		d.set(gi)
		n.after(15 * time.Second)
		if story := n.did.story(); len(story) == 0 || !slices.ContainsFunc(story, func(s string) bool { return strings.HasSuffix(s, "reclaim container-gc") }) {
			t.Errorf("%q, want the built-in steps at once", story)
		}
	})
}
