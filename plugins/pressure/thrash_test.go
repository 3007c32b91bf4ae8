package pressure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// course tells a rule one second of a node after the other, in four looks each.
type course struct {
	*testing.T
	rule  rule
	looks looks
	next  look
}

func newCourse(t *testing.T) *course {
	return &course{T: t, rule: rule{window: 2 * time.Second, brink: 100 * mib}, next: look{reclaimable: 300 * mib}}
}

// second returns how many looks of a second found that the node thrashes.
func (c *course) second(refaults, scans, fall int64) (thrashed int) {
	c.Helper()
	for range 4 {
		c.next.at += 250 * time.Millisecond
		c.next.refaults += refaults / 4
		c.next.scans += scans / 4
		c.next.reclaimable -= fall / 4
		if broken := c.looks.add(c.next, c.rule.window); broken != "" {
			c.Errorf("at %v: %s", c.next.at, broken)
		}
		if v, ok := c.rule.judge(c.looks); ok && v.thrashes() {
			thrashed++
		}
	}
	return thrashed
}

func (c *course) want(what string, got, least, most int) {
	c.Helper()
	if got < least || got > most {
		c.Errorf("%s: %d of 4 looks found that the node thrashes, want %d to %d", what, got, least, most)
	}
}

func TestANodeThrashesOnceBothHalvesOfAWindowDid(t *testing.T) {
	c := newCourse(t)
	for range 3 {
		c.want("quiet", c.second(0, 0, 0), 0, 0)
	}
	c.want("the first second", c.second(3000, 0, 20*mib), 0, 0)
	c.want("the second", c.second(3000, 0, 20*mib), 1, 4)
	c.want("the third", c.second(3000, 0, 20*mib), 4, 4)
	c.want("no refault", c.second(0, 0, 20*mib), 0, 3)
	c.want("still none", c.second(0, 0, 20*mib), 0, 0)
}

func TestDirectScansAreAsGoodAsRefaults(t *testing.T) {
	c := newCourse(t)
	for range 3 {
		c.second(0, 0, 0)
	}
	c.second(0, 400, 20*mib)
	c.second(0, 400, 20*mib)
	c.want("three seconds of scans", c.second(0, 400, 20*mib), 4, 4)
}

// A pod at its own limit refaults as fast as a node that thrashes, and a log storm takes memory without a refault.
func TestOneOfBothIsNoThrash(t *testing.T) {
	for name, of := range map[string][2]int64{"a pod at its limit": {3000, 0}, "a pod that grows": {0, 20 * mib}, "memory that comes back": {3000, -20 * mib}} {
		c := newCourse(t)
		for range 8 {
			c.want(name, c.second(of[0], of[0], of[1]), 0, 0)
		}
	}
}

// Jobs of a build take and give back more than a hog takes in the same time.
func TestMemoryThatComesAndGoesIsNoThrash(t *testing.T) {
	c := newCourse(t)
	for range 12 {
		c.next.reclaimable += 15 * mib
		c.want("a build", c.second(3000, 400, 0), 0, 0)
		c.next.reclaimable -= 15 * mib
		c.want("a build", c.second(3000, 400, 0), 0, 0)
	}
}

// A slow fall must have lasted: at 5 MiB a second with 300 MiB left it is one of a pod that starts, with 150 left it is not.
func TestASlowFallIsAThrashOnceLittleIsLeft(t *testing.T) {
	c := newCourse(t)
	for left := int64(300); left > 100; left -= 5 {
		least, most := 0, 4
		switch {
		case left > 245:
			most = 0
		case left < 205:
			least = 4
		}
		c.want(fmt.Sprint(left, " MiB left"), c.second(3000, 0, 5*mib), least, most)
	}
}

// The pace counts, not the size of the node.
func TestALargeNodeThrashesAtTheSamePace(t *testing.T) {
	c := newCourse(t)
	c.next.reclaimable = 6 << 30
	for range 3 {
		c.second(0, 0, 0)
	}
	for range 8 {
		c.want("20 MiB/s of 6 GiB", c.second(100_000, 0, 20*mib), 0, 0)
	}
	for range 4 {
		c.second(100_000, 0, 400*mib)
	}
	c.want("400 MiB/s of 4 GiB", c.second(100_000, 0, 400*mib), 4, 4)
}

// Refaults of a hog of 60 MiB/s began with 220 MiB left, and 85 were left when it was found.
func TestAFastHogIsFoundInHalfOfAWindow(t *testing.T) {
	c := newCourse(t)
	c.next.reclaimable = 400 * mib
	for range 3 {
		c.want("no refault yet", c.second(0, 0, 60*mib), 0, 0)
	}
	c.want("60 MiB/s, 160 left", c.second(3000, 0, 60*mib), 1, 2)
	c.want("60 MiB/s", c.second(3000, 0, 60*mib), 4, 4)
	c = newCourse(t)
	c.next.reclaimable = 400 * mib
	for range 3 {
		c.second(0, 0, 0)
	}
	c.want("20 MiB/s", c.second(3000, 0, 20*mib), 0, 0)
}

// Its disk may be as slow as that of a small one.
func TestALargeNodeWithASlowDiskThrashes(t *testing.T) {
	c := newCourse(t)
	c.next.reclaimable = 512 << 30
	for range 3 {
		c.second(0, 0, 24<<30)
	}
	c.want("20 refaults/s", c.second(20, 0, 24<<30), 0, 0)
	c.want("20 refaults/s", c.second(20, 0, 24<<30), 0, 0)
	c.want("20 refaults/s", c.second(20, 0, 24<<30), 0, 0)
	c.want("one second of 3000", c.second(3000, 0, 24<<30), 0, 4)
	c.want("a slow disk", c.second(3000, 0, 24<<30), 4, 4)
}

func TestRefaultsInHalfOfAWindowAreNoThrash(t *testing.T) {
	c := newCourse(t)
	for range 3 {
		c.want("a hog alone", c.second(0, 0, 20*mib), 0, 0)
	}
	c.want("the first second of refaults", c.second(3000, 0, 20*mib), 0, 0)
}

func TestAFallThatHasEndedIsNoThrash(t *testing.T) {
	c := newCourse(t)
	for range 6 {
		c.second(3000, 0, 20*mib)
	}
	c.want("while it falls", c.second(3000, 0, 20*mib), 4, 4)
	c.second(3000, 0, 0)
	c.second(3000, 0, 0)
	c.want("two seconds later", c.second(3000, 0, 0), 0, 0)
}

// Nodes of 1 GiB to 1 TiB with 1 to 50 % available. A hog by which that is gone in 20 to 120 s is found 10 s before it is. Waves
// of any length are none if they take less than a sixteenth of what they leave.
func TestHogsAreFoundOnAnyNodeAndWavesAreNone(t *testing.T) {
	seeds := uint64(100)
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		seeds = 500
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		available := int64(float64(int64(1<<30)<<r.IntN(11)) * (0.01 + 0.49*r.Float64()))
		noise := available / 200

		c := newCourse(t)
		c.rule.brink, c.next.reclaimable = 0, available
		gone := 20 + 100*r.Float64()
		perSecond := int64(float64(available) / gone)
		for second := 0; ; second++ {
			c.next.reclaimable += r.Int64N(noise) - noise/2
			if c.second(1+r.Int64N(100_000), 0, perSecond) > 0 {
				break
			}
			if left := float64(c.next.reclaimable) / float64(perSecond); left < 10 {
				t.Errorf("seed %d: a hog that takes %d MiB in %.0f s is not found when %.0f s are left", seed, available>>20, gone, left)
				break
			}
		}

		c = newCourse(t)
		c.rule.brink = 0
		wave, every := float64(available)/17, 1+60*r.Float64()
		for second := range 120 {
			c.next.reclaimable = available + int64(wave/2*math.Sin(2*math.Pi*float64(second)/every))
			if c.second(1000+r.Int64N(100_000), 1000, 0) > 0 {
				t.Errorf("seed %d: a wave of %.0f s that takes %.0f MiB of %d is taken for a hog", seed, every, wave/mib, available>>20)
				break
			}
		}
	}
}

// A pod at its limit, or a build, moves memory by some MiB and then not any more.
func TestAStepIsNoThrash(t *testing.T) {
	for _, step := range []int64{4 * mib, 8 * mib, 16 * mib} {
		c := newCourse(t)
		for range 10 {
			c.second(3000, 400, 0)
		}
		c.want("a step", c.second(3000, 400, step), 0, 0)
		for range 10 {
			c.want("after a step", c.second(3000, 400, 0), 0, 0)
		}
	}
}

func TestAHogThatStopsAtTheBrinkIsNoticed(t *testing.T) {
	c := newCourse(t)
	c.next.reclaimable = 99 * mib
	for range 3 {
		c.second(0, 0, 0)
	}
	c.want("below the threshold without a refault", c.second(0, 0, 0), 0, 0)
	c.second(3000, 0, 0)
	c.second(3000, 0, 0)
	c.want("below it with refaults", c.second(3000, 0, 0), 4, 4)
	c.next.reclaimable = 120 * mib
	c.second(3000, 0, 0)
	c.want("above it", c.second(3000, 0, 0), 0, 0)
	c.next.protected = 30 * mib
	c.want("of which some is protected", c.second(3000, 0, 0), 4, 4)
}

func TestWhatCannotBeBelievedBeginsAWindow(t *testing.T) {
	for name, spoil := range map[string]func(*look){
		"the clock went back": func(l *look) { l.at -= 3 * time.Second },
		"looks were missing":  func(l *look) { l.at += time.Hour },
		"counters went back":  func(l *look) { l.refaults = 0 },
	} {
		c := newCourse(t)
		for range 4 {
			c.second(3000, 3000, 20*mib)
		}
		spoil(&c.next)
		if broken := c.looks.add(c.next, c.rule.window); broken != name {
			t.Errorf("%q, want %q", broken, name)
		}
		if _, ok := c.rule.judge(c.looks); ok || len(c.looks) != 1 {
			t.Errorf("%s: judged by %d looks", name, len(c.looks))
		}
		c.second(3000, 3000, 20*mib)
		c.want(name+", a window later", c.second(3000, 3000, 20*mib), 1, 4)
	}
}

func TestLooksAreThoseOfAWindow(t *testing.T) {
	var l looks
	for i := range 1000 {
		l.add(look{at: time.Duration(i) * 25 * time.Millisecond}, 2*time.Second)
	}
	if len(l) > 322 {
		t.Errorf("%d looks are kept, want those of eight seconds", len(l))
	}
}

// States of nodes that acted on PSI alone and killed healthy pods, as published: github.com/siderolabs/talos issues 12526
// (40 to 60 % in use, busy disks) and 13746 (85 % free, a pod at its limit, full stalls of three quarters of the time).
// Whatever the kernel counts, what is available is above the threshold.
func TestPublishedFalseAlarmsAreNone(t *testing.T) {
	for name, availablePercent := range map[string]int64{"talos 12526": 40, "talos 13746": 85} {
		c := newCourse(t)
		const capacity = 8 << 30
		c.next.reclaimable = capacity * availablePercent / 100
		for range 8 {
			c.next.stalled[0] += 750 * time.Millisecond
			c.want(name, c.second(50_000, 50_000, 0), 0, 0)
			c.second(50_000, 50_000, 25*mib) // and if memory fell meanwhile
			if c.next.reclaimable < capacity/10 {
				t.Errorf("%s: %d bytes are available", name, c.next.reclaimable)
			}
		}
	}
}
