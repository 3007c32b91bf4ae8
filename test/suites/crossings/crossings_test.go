package crossings_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

const (
	mib         = 1 << 20
	slowest     = 100  // MiB/s
	fastest     = 3072 // MiB/s
	termDelayMS = 300
	// missedAfter: evictd polls every 10 s, so a reaction this late may be the poll's.
	missedAfter   = time.Second
	roundDeadline = 40 * time.Second
	// startsOver bounds the runs that others on the machine may spoil.
	startsOver = 5
)

func TestMain(m *testing.M) {
	stack.SweepIfGuard()
	crossing.RunIfChild()
	if os.Getenv("EVICTD_TEST_E2E") == "1" {
		if err := stack.Prepare(); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// With an interval of 10 s only notifications can be fast. The threshold is
// crossed again and again, slowly and quickly, by a new pod each time: none of the
// crossings may be missed, and each takes one victim, the pod that caused it.
//
// The memory is that of all pods together, which nobody else on the machine takes
// or gives back: nothing excuses a round.
func TestNoCrossingIsMissed(t *testing.T) {
	play(t, ofPods, rounds(t, 20))
}

// The same with the memory of the machine, of which others may take and give back
// some 300 MiB at any time. What is theirs is not evictd's, and starts over.
func TestNoCrossingOfTheNodeIsMissed(t *testing.T) {
	play(t, ofNode, max(4, rounds(t, 20)/5))
}

func rounds(t *testing.T, byDefault int) int {
	t.Helper()
	if os.Getenv("EVICTD_TEST_E2E") != "1" {
		t.Skip("needs root and real containers: run make e2e")
	}
	text := os.Getenv("EVICTD_CROSSINGS")
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 {
		t.Fatalf("EVICTD_CROSSINGS=%q, want a number from 2 on", text)
	}
	return n
}

func play(t *testing.T, s scope, rounds int) {
	f := newField(t, s, nil)
	var latencies []float64
	for disturbances := 0; len(latencies) < rounds; {
		i := len(latencies)
		rate := rateOf(i, rounds)
		r, err := f.round(t, fmt.Sprintf("hog-%d", i+1), rate, nothing)
		if errors.Is(err, errDisturbed) && s.shared && disturbances < startsOver {
			disturbances++
			t.Logf("%3d  %4d MiB/s  %v: starting over with a new evictd, for the %d. time of at most %d", i+1, rate, err, disturbances, startsOver)
			f.close(t)
			f = newField(t, s, nil)
			continue
		}
		if err != nil {
			t.Fatalf("round %d at %d MiB/s, after starting over %d times: %v", i+1, rate, disturbances, err)
		}
		t.Logf("%3d  %4d MiB/s  crossed -> SIGTERM %6.1f ms  (crossing known to %.1f ms)  gone after %4.0f ms", i+1, rate, r.latency, r.gap, r.gone)
		latencies = append(latencies, r.latency)
	}
	f.bystanderLives(t)
	slices.Sort(latencies)
	t.Logf("%s: %d crossings, none missed, one victim each; crossed -> SIGTERM median %.1f ms, p99 %.1f ms, maximum %.1f ms",
		s.signal, rounds, latencies[len(latencies)/2], latencies[(len(latencies)-1)*99/100], latencies[len(latencies)-1])
}

// rateOf spreads rates evenly by ratio: as many rounds per octave of speed.
func rateOf(round, rounds int) int {
	return int(math.Round(slowest * math.Pow(float64(fastest)/slowest, float64(round)/float64(rounds-1))))
}

// nothing happens beside a crossing.
func nothing() (end func()) { return func() {} }

func ms(ns int64) float64 { return float64(ns) / 1e6 }
