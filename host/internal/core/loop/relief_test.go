package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// reasons to evict the last pod, by name: they prepare a node and return what begins and ends the reason.
var reasons = map[string]func(n *node, c *policy.ThresholdConfig) (begin, end func()){
	"its own limit": func(n *node, _ *policy.ThresholdConfig) (begin, end func()) {
		d := n.addDisk()
		d.limit("hog", 100*mi, mi)
		return func() { d.limit("hog", 100*mi, 101*mi); d.set(d.available - 100*mi) }, func() {}
	},
	"the disk": func(n *node, c *policy.ThresholdConfig) (begin, end func()) {
		d := n.addDisk()
		d.volumes["uid-hog"], d.late = 45*gi, time.Millisecond
		c.Hard["nodefs.available"] = "10Gi"
		return func() { d.available = 9 * gi }, func() {}
	},
	"a vendor's own resource": func(n *node, c *policy.ThresholdConfig) (begin, end func()) {
		return vendorsReason(n, c, "")
	},
	"a vendor's signal of memory": func(n *node, c *policy.ThresholdConfig) (begin, end func()) {
		return vendorsReason(n, c, eviction.MemoryAvailable)
	},
}

func vendorsReason(n *node, c *policy.ThresholdConfig, relieves eviction.Signal) (begin, end func()) {
	v := n.addVendor()
	v.withoutSteps()
	for i := range v.instance.Plugin.Signals {
		v.instance.Plugin.Signals[i].Definition.Relieves = relieves
	}
	c.Hard[string(spareSignal)] = "100"
	return func() { v.crosses(spareSignal, 50) }, func() { v.set(spareSignal, 500) }
}

// measuredByAVendor stands for memory.available where a vendor's plugin measures it.
const measuredByAVendor eviction.Signal = "memory.available, measured by a vendor"

// A pod that was evicted for one resource took another one until it had ended, or gave it back late: innocents went for that.
func TestAVictimFreesAllThatItHolds(t *testing.T) {
	for why, prepare := range reasons {
		for _, of := range []eviction.Signal{eviction.MemoryAvailable, eviction.PIDAvailable, measuredByAVendor} {
			for _, late := range []time.Duration{0, 50 * time.Millisecond, 150 * time.Millisecond, time.Second, 8 * time.Second} {
				t.Run(fmt.Sprintf("%s/%s/%v late", why, of, late), func(t *testing.T) {
					story(t, func(t *testing.T, n *node) {
						of := of
						if of == measuredByAVendor { // whose figure may be a score
							of = eviction.MemoryAvailable
							n.plugins.add(&eviction.Plugin{Name: "acme", Measurer: n.memory, Signals: []eviction.SignalSpec{{Signal: of}}})
							n.readByHand(false)
						}
						thresholds := policy.ThresholdConfig{Hard: map[string]string{string(of): "1000"}}
						resource, usage := n.memory, n.runtime.usage
						if of == eviction.PIDAvailable {
							usage = map[string]int64{}
							resource = &memory{mu: &n.mu, did: n.did, usage: usage}
							plugin := *n.plugins.builtin[0].Plugin
							plugin.Name, plugin.Observer, plugin.Measurer, plugin.Watcher = "pid", resource, resource, resource
							plugin.Signals = []eviction.SignalSpec{{Signal: of}}
							n.plugins.builtin = append(n.plugins.builtin, &registry.Instance{Name: "pid", Generation: 9, Plugin: &plugin})
						}
						n.runtime.pods = nil
						n.runtime.running = map[string]bool{}
						for _, name := range []string{"innocent-0", "innocent-1", "innocent-2", "innocent-3", "hog"} {
							n.runtime.addPod(name, 70)
							usage["uid-"+name] = 70
						}
						n.runtime.dies["uid-hog"] = 900 * time.Millisecond
						resource.answers(func() (eviction.ObserveReply, error) {
							r, err := figure(1200-usage["uid-hog"]+n.runtime.released(usage, late), 1<<20, time.Now())
							r.Observations[0].Signal = of
							return r, err
						})
						begin, end := prepare(n, &thresholds)
						s := settings(t, thresholds)
						s.LocalStorageLimits, s.MonitoringInterval = true, time.Second
						n.start(s)
						begin()
						for range 200 {
							n.after(50 * time.Millisecond)
							if n.did.count("kill hog") > 0 && n.runtime.running["uid-hog"] {
								usage["uid-hog"] += 100
								end()
							}
							resource.wake()
						}
						for _, kill := range n.did.kills() {
							if !strings.Contains(kill, " hog ") {
								t.Fatalf("%q, want the hog alone", n.did.kills())
							}
						}
						if n.did.count("kill hog") == 0 || usage["uid-hog"] < 500 {
							t.Errorf("the hog uses %d, %q: nothing was shown", usage["uid-hog"], n.did.kills())
						}
					})
				})
			}
		}
	}
}

// Two signals of one resource did not know each other's victims: memory that came back late cost one innocent or more.
func TestTwoSignalsOfOneResourceTakeOneVictim(t *testing.T) {
	for _, first := range []string{"900", "1500"} { // the vendor's threshold, below or above that of memory
		for _, late := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, time.Second, 8 * time.Second} {
			t.Run(first+" "+late.String(), func(t *testing.T) {
				story(t, func(t *testing.T, n *node) {
					thresholds := policy.ThresholdConfig{Hard: map[string]string{"memory.available": "1000"}}
					vendorsReason(n, &thresholds, eviction.MemoryAvailable)
					v := n.plugins.builtin[1].Plugin.Observer.(*vendor)
					thresholds.Hard[string(spareSignal)] = first
					n.runtime.pods, n.runtime.running = nil, map[string]bool{}
					for _, name := range []string{"innocent-0", "innocent-1", "innocent-2", "hog"} {
						n.runtime.addPod(name, 70)
					}
					n.runtime.dies["uid-hog"] = 900 * time.Millisecond
					available := func() int64 { return 2000 - n.runtime.usage["uid-hog"] + n.runtime.released(n.runtime.usage, late) }
					n.memory.answers(func() (eviction.ObserveReply, error) { return figure(available(), 1<<20, time.Now()) })
					n.start(settings(t, thresholds))
					for range 300 {
						if n.runtime.running["uid-hog"] {
							n.runtime.usage["uid-hog"] += 40
						}
						v.set(spareSignal, available())
						n.memory.wake()
						v.wake(eviction.Wake{Signal: spareSignal, Cause: "test"})
						n.after(50 * time.Millisecond)
					}
					if kills := n.did.kills(); len(kills) != 1 || !strings.Contains(kills[0], " hog ") {
						t.Errorf("%q, want the hog alone", kills)
					}
				})
			})
		}
	}
}

// A vendor's victim with a long grace period held up memory, of which it had nothing.
func TestNoResourceWaitsForAVictimThatHoldsNoneOfIt(t *testing.T) {
	for _, memory := range []policy.ThresholdConfig{hard("1Gi"), soft("1Gi", "1s")} {
		story(t, func(t *testing.T, n *node) {
			v := n.addVendor()
			v.withoutSteps()
			n.runtime.addPod("worn", 10*mi) // the vendor's ranking has the last pod first
			n.runtime.stuck, n.runtime.dies["uid-worn"] = true, 10*time.Minute
			c := memory
			c.Soft, c.SoftGracePeriod = map[string]string{string(spareSignal): "100"}, map[string]string{string(spareSignal): "1s"}
			for signal, value := range memory.Soft {
				c.Soft[signal], c.SoftGracePeriod[signal] = value, "1s"
			}
			s := settings(t, c)
			s.MaxPodGracePeriodSeconds = 600
			n.start(s)
			v.crosses(spareSignal, 50)
			n.after(5 * time.Second)
			n.memory.falls(gi - 500*mi)
			n.after(2 * time.Second)
			if kills := n.did.kills(); !slices.ContainsFunc(kills, func(kill string) bool { return strings.Contains(kill, " kill big ") }) {
				t.Errorf("%q, want big within 2 s", kills)
			}
		})
	}
}

// The memory of a victim was on its way when evictd ended, and the next one took another pod.
func TestTheNextHostWaitsForReliefThatIsOnItsWay(t *testing.T) {
	for _, late := range []time.Duration{1500 * time.Millisecond, 3 * time.Second} {
		for _, ends := range []time.Duration{0, 500 * time.Millisecond, time.Second} {
			story(t, func(t *testing.T, n *node) {
				n.start(settings(t, hard("1Gi")))
				n.memory.answers(func() (eviction.ObserveReply, error) {
					return figure(gi-50*mi+n.runtime.released(n.runtime.usage, late), 8*gi, time.Now())
				})
				n.memory.wake()
				n.after(ends)
				n.stop()
				n.options.Restored.Owed = n.journal.owed
				n.run(settings(t, hard("1Gi")))
				n.after(5 * time.Second)
				if kills := n.did.kills(); len(kills) != 1 || len(n.journal.owed) == 0 {
					t.Errorf("late by %v, ended after %v: %q, want big alone", late, ends, kills)
				}
			})
		}
	}
}

// A pod over its own limit had ended before memory was short: the evictd that had taken over its kill knew of no memory of it.
func TestAFormerHostsVictimFreesAllThatItHolds(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		const late = 2 * time.Second
		d := n.addDisk()
		d.limit("big", 100*mi, 101*mi)
		n.runtime.usage["uid-big"], n.runtime.dies["uid-big"] = 500*mi, 500*time.Millisecond
		n.decidedBefore(victim.Kill{Name: "big", Signal: "emptydirfs.limit", Limit: true}, 0)
		taken := int64(0)
		n.memory.answers(func() (eviction.ObserveReply, error) {
			return figure(2*gi-taken+n.runtime.released(n.runtime.usage, late), 8*gi, time.Now())
		})
		s := settings(t, hard("1Gi"))
		s.LocalStorageLimits = true
		n.run(s)
		n.after(time.Second)
		taken = gi + 300*mi
		n.memory.wake()
		n.after(5 * time.Second)
		if n.runtime.running["uid-big"] || !n.runtime.running["uid-small"] {
			t.Errorf("%q, want big alone", n.did.story())
		}
	})
}

// The memory of a victim was back when evictd ended, and the next one waited for it for up to 20 s.
func TestTheNextHostWaitsForNoReliefThatHasCome(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		less := 50 * mi
		n.start(settings(t, hard("1Gi")))
		n.memory.answers(func() (eviction.ObserveReply, error) {
			return figure(gi-less+n.runtime.released(n.runtime.usage, time.Second), 8*gi, time.Now())
		})
		wakes := func() {
			for range 20 {
				n.memory.wake()
				n.after(100 * time.Millisecond)
			}
		}
		wakes()
		n.stop()
		for _, owed := range n.journal.owed { // of signals without a figure too
			if _, open := owed.Frees[eviction.MemoryAvailable]; open {
				t.Errorf("the journal has %+v", owed)
			}
		}
		n.options.Restored.Owed = n.journal.owed
		before := len(n.did.kills())
		less = 3 * gi
		n.run(settings(t, hard("1Gi")))
		wakes()
		if kills := n.did.kills(); before != 1 || len(kills) != 2 {
			t.Errorf("%q, want the second within 2 s", kills)
		}
	})
}

// A vendor measures memory: the figure may be a score, and the pace was the kubelet's for want of one.
func TestAnUnknownPromiseIsNoReasonForTheKubeletsPace(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.plugins.custom = append(n.plugins.custom, &registry.Instance{Name: "acme", Generation: 7, Plugin: &eviction.Plugin{
			Name: "acme", Measurer: n.memory, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}},
		}})
		n.start(settings(t, hard("1Gi")))
		n.memory.falls(gi - 4*gi)
		n.after(5 * time.Second)
		if got := n.did.count("node event EvictionsSlowedDown"); got > 0 || len(n.did.kills()) < 2 {
			t.Errorf("%q", n.did.story())
		}
	})
}
