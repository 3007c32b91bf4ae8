package beside_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/beside"
	"github.com/evictd/evictd/shared/eviction"
)

// firstAt plays a node whose memory falls by a byte in that many seconds: it returns who acts first, "both" within a microsecond.
func firstAt(sides map[string][]policy.Threshold, capacity int64, secondsPerByte float64) string {
	at := map[string]float64{}
	for side, thresholds := range sides {
		at[side] = math.Inf(1)
		for _, t := range thresholds {
			value := t.Value.Of(capacity)
			met := float64(capacity-value.Value()) * secondsPerByte
			if t.Signal == eviction.MemoryAvailable && t.GracePeriod < beside.KeeperGrace {
				at[side] = min(at[side], met+t.GracePeriod.Seconds())
			}
		}
	}
	switch d := at["evictd"] - at["the kubelet"]; {
	case math.Abs(d) < 1e-6:
		return "both"
	case d < 0:
		return "evictd"
	default:
		return "the kubelet"
	}
}

// What is said of who acts first is what happens when memory falls, at any pace.
func TestWhoActsFirstIsWhoDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 10_000 {
		capacity := int64(1) << (30 + r.IntN(11))
		value := func() string {
			if r.IntN(2) == 0 {
				return fmt.Sprintf("%d%%", 1+r.IntN(20))
			}
			return fmt.Sprintf("%dMi", 1+r.Int64N(capacity>>22))
		}
		side := func(name string) (text string) {
			if r.IntN(4) > 0 {
				text = "memory.available<" + value()
			}
			if r.IntN(3) > 0 || text == "" && name == "evictd" {
				text += fmt.Sprintf(" memory.available<%s/%ds", value(), 1+r.IntN(120))
			} else if name == "the kubelet" && r.IntN(2) == 0 {
				text += " memory.available<" + value() + "/8760h"
			}
			return text
		}
		ours, theirs := side("evictd"), side("the kubelet")
		sides := map[string][]policy.Threshold{"evictd": thresholds(t, ours), "the kubelet": thresholds(t, theirs)}
		n := beside.Node{Capacity: map[eviction.Signal]int64{eviction.MemoryAvailable: capacity}}
		var said string
		for _, f := range beside.Compare(sides["evictd"], sides["the kubelet"], n) {
			if f.About == beside.First && said == "" {
				said = f.Text
			}
		}
		slow, sudden, between := promised(said)
		seen[slow+", "+sudden+", "+between]++
		winners := map[string]bool{}
		for seconds := 10.0; seconds > 1e-16; seconds /= 1.1 {
			winners[firstAt(sides, capacity, seconds)] = true
		}
		delete(winners, "both") // for a moment
		sayings := map[string]bool{slow: true, sudden: true, between: true}
		for _, is := range []string{"evictd", "the kubelet"} {
			if winners[is] && !sayings[is] && !sayings["both"] {
				t.Fatalf("evictd %s, kubelet %s, capacity %d: %q, and %s is first at some pace", ours, theirs, capacity, said, is)
			}
		}
		if got := firstAt(sides, capacity, 10); got != slow {
			t.Fatalf("evictd %s, kubelet %s, capacity %d: %q, and in a slow shortage it is %s", ours, theirs, capacity, said, got)
		}
		// In a sudden one both cross at once: the longer grace period loses, and of equal ones neither.
		if got := firstAt(sides, capacity, 1e-16); got != "both" && got != sudden {
			t.Fatalf("evictd %s, kubelet %s, capacity %d: %q, and in a sudden shortage it is %s", ours, theirs, capacity, said, got)
		}
		checkRaised(t, said, sides, capacity)
	}
	for what, times := range seen {
		t.Logf("%5d %s", times, what)
	}
	if len(seen) < 7 {
		t.Errorf("%d kinds of answers, want all", len(seen))
	}
}

// promised reads who is said to be first in a slow and in a sudden shortage, and between them.
func promised(said string) (slow, sudden, between string) {
	who := func(text string) string {
		for _, one := range []string{"evictd", "the kubelet", "both"} {
			if strings.HasPrefix(text, one) {
				return one
			}
		}
		return text
	}
	if _, after, ok := strings.Cut(said, "in a slow shortage "); ok {
		slow, sudden, _ = strings.Cut(after, "; in a sudden one ")
		return who(slow), who(sudden), who(slow)
	}
	if _, after, ok := strings.Cut(said, "in slow and in sudden shortages "); ok {
		slow, between, _ = strings.Cut(after, "; between them ")
		return who(slow), who(slow), who(between)
	}
	return who(said), who(said), who(said)
}

// checkRaised puts the value in force that is said to make evictd the first.
func checkRaised(t *testing.T, said string, sides map[string][]policy.Threshold, capacity int64) {
	t.Helper()
	_, after, ok := strings.Cut(said, "evictionHard ")
	if !ok {
		return
	}
	value, _, _ := strings.Cut(after, " ")
	raised := map[string][]policy.Threshold{"evictd": thresholds(t, "memory.available<"+value), "the kubelet": sides["the kubelet"]}
	for seconds := 10.0; seconds > 1e-16; seconds /= 3 {
		if got := firstAt(raised, capacity, seconds); got == "the kubelet" {
			t.Fatalf("kubelet %v, capacity %d: with %s the kubelet is first", sides["the kubelet"], capacity, value)
		}
	}
}
