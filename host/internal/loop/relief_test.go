package loop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

func (n *node) kills() []string {
	return slices.DeleteFunc(n.story(), func(s string) bool { return !strings.Contains(s, " kill ") })
}

// released sums up the uses of the pods that have been gone for at least lag.
func (n *node) released(uses map[string]int64, lag time.Duration) (sum int64) {
	for uid, at := range n.gone {
		if time.Since(at) >= lag {
			sum += uses[uid]
		}
	}
	return sum
}

// lagging has the memory's figure be so old, and says so in its time.
func (n *node) lagging(available int64, lag time.Duration) {
	n.observe = func() (eviction.ObserveReply, error) {
		return eviction.ObserveReply{Observations: []eviction.Observation{{
			Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: available + n.released(n.usage, lag),
			Capacity: 100 * gi, Time: time.Now().Add(-lag),
		}}}, nil
	}
}

// The figure of memory lags by up to eight seconds, or the filesystem frees what was
// deleted that much later: as many pods go as must, and no more.
func TestRoundsWithAFigureThatLags(t *testing.T) {
	const rounds = 40
	r := rand.New(rand.NewPCG(10, 40))
	victims, needed := 0, 0
	for round := range rounds {
		lag := time.Duration(round) * 8 * time.Second / (rounds - 1)
		resource := []string{"memory", "disk"}[round%2]
		var uses []int64
		for range 6 {
			uses = append(uses, (1+r.Int64N(40))*gi/10)
		}
		available := r.Int64N(10 * gi)
		must, left := 0, available
		for _, use := range slices.Backward(slices.Sorted(slices.Values(uses))) {
			if left < 10*gi {
				must, left = must+1, left+use
			}
		}
		story(t, func(t *testing.T, n *node) {
			n.pods, n.available = nil, 50*gi
			d := n.addDisk()
			for i, use := range uses {
				n.addPod(fmt.Sprintf("pod-%d", i), use)
				d.volumes[fmt.Sprintf("uid-pod-%d", i)] = use
			}
			s := diskSettings(t, hardDisk("10Gi"))
			if resource == "memory" {
				s = settings(t, hard("10Gi"))
			}
			n.run(s, rundir.State{})
			n.settle()
			n.mu.Lock()
			if resource == "memory" {
				n.lagging(available, lag)
			} else {
				d.set(available)
				d.late = lag
			}
			n.mu.Unlock()
			n.after(5 * time.Minute)
			got := len(n.kills())
			t.Logf("round %d: %s %.1f s late, %d victims, %d needed", round, resource, lag.Seconds(), got, must)
			if got != must {
				t.Errorf("round %d: %s %v late, %d of %v available: %d victims, want %d: %q", round, resource, lag, available, uses, got, must, n.kills())
			}
			victims, needed = victims+got, needed+must
		})
	}
	t.Logf("%d rounds with a figure that lags 0 to 8 s: %d victims, %d needed", rounds, victims, needed)
}

// A vendor's figure lags and has the time of now: three pods went in two seconds.
func TestAnOwnSignalThatLagsCostsOnePod(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		n.providers = append(n.providers, v.instance)
		n.run(ownSettings(t), rundir.State{})
		n.settle()
		v.crosses(spareSignal, 900)
		n.after(9 * time.Second)
		if got := n.kills(); len(got) != 1 {
			t.Errorf("%q within nine seconds, want one", got)
		}
		w := n.loop.Snapshot().Waiting
		if len(w) != 1 || w[0].Signal != spareSignal || w[0].For != policy.WaitForRelief || !slices.Equal(w[0].Victims, []string{"default/big"}) || w[0].Until.IsZero() {
			t.Errorf("the status says %+v is waited for, want the relief of default/big", w)
		}
		n.after(10 * time.Second)
		if got := n.kills(); len(got) != 2 {
			t.Errorf("%q after nineteen seconds, want the second pod too: nothing has come back", got)
		}
	})
}

// The victim of a hard threshold goes on growing until it ends. What it takes comes
// back with it, and no other pod goes for that.
func TestAVictimThatGrowsWhileItEndsCostsNobodyElse(t *testing.T) {
	for name, c := range map[string]struct {
		grows string
		want  int
	}{
		"the victim grows": {"uid-big", 1},
		"another grows":    {"uid-other", 2},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.addPod("other", 150*mi)
				n.dies["uid-big"] = 900 * time.Millisecond
				n.run(settings(t, hard("1Gi")), rundir.State{})
				n.settle()
				n.set(gi - 1)
				n.wake()
				n.after(100 * time.Millisecond)
				n.mu.Lock()
				n.usage[c.grows] += 2500 * mi
				n.available -= 2500 * mi
				n.mu.Unlock()
				n.wake()
				n.after(700 * time.Millisecond)
				if got := n.kills(); len(got) != c.want {
					t.Errorf("%q while big is ending, want %d", got, c.want)
				}
			})
		})
	}
}

// A victim grew between the sample and its measurement. What it could not bring back was
// waited for, and the next one came two seconds late.
func TestAVictimThatGrewBeforeItWasMeasuredHoldsUpNobody(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.pods, n.dies["uid-first"] = nil, 400*time.Millisecond
		n.addPod("first", 600*mi)
		n.addPod("second", 300*mi)
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		grown := false
		n.mu.Lock()
		n.observe = func() (eviction.ObserveReply, error) {
			available := n.available
			if !grown && available < gi {
				grown, n.usage["uid-first"], n.available = true, 800*mi, available-200*mi
			}
			return eviction.ObserveReply{Observations: []eviction.Observation{{
				Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: available, Capacity: 8 * gi, Time: time.Now(),
			}}}, nil
		}
		n.mu.Unlock()
		n.set(gi - 1)
		n.wake()
		n.after(700 * time.Millisecond)
		n.mu.Lock()
		n.usage["uid-second"], n.available = 950*mi, n.available-650*mi
		n.mu.Unlock()
		n.wake()
		n.after(100 * time.Millisecond)
		if got := n.kills(); len(got) != 2 || !strings.Contains(got[1], "kill second") {
			t.Errorf("%q, want second too at once: all that first had used is back", got)
		}
	})
}

// The relief of image-gc was taken for that of the victim, and a second pod went
// before the filesystem had given back the victim's.
func TestWhatReclaimFreesIsNotTheVictimsRelief(t *testing.T) {
	for name, c := range map[string]struct{ available, reclaimed int64 }{
		"nothing is reclaimed": {7 * gi, 0},
		"3Gi are reclaimed":    {4 * gi, 3 * gi},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.frees["image-gc"] = c.reclaimed
				d.volumes["uid-big"], d.volumes["uid-small"] = 5*gi, gi
				d.late = 8 * time.Second
				n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
				n.settle()
				d.set(c.available)
				n.after(8010 * time.Millisecond)
				d.mu.Lock()
				d.frees["image-gc"] = 0
				d.mu.Unlock()
				n.after(time.Minute)
				if got := n.kills(); len(got) != 1 || !strings.Contains(got[0], "kill big") {
					t.Errorf("%q, want big alone: its 5Gi end the pressure", got)
				}
			})
		})
	}
}

// A victim that could not be measured again counted as one that had not grown.
func TestAVictimThatCannotBeMeasuredAgainCostsNobodyElse(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.addPod("other", 150*mi)
		n.dies["uid-big"] = 900 * time.Millisecond
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.set(gi - 1)
		n.wake()
		n.after(100 * time.Millisecond)
		n.mu.Lock()
		n.usage["uid-big"] += 2500 * mi
		n.available -= 2500 * mi
		n.measure = errBroken
		n.mu.Unlock()
		n.wake()
		n.after(700 * time.Millisecond)
		if got := n.kills(); len(got) != 1 {
			t.Errorf("%q while big is ending, want nobody else", got)
		}
	})
}
