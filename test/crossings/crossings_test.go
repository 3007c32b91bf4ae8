package crossings_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/evictd/evictd/test/hog"
	"github.com/evictd/evictd/test/stack"
	"github.com/evictd/evictd/test/stack/agent"
	"github.com/evictd/evictd/test/stack/crossing"
)

const (
	mib         = 1 << 20
	distanceMiB = 500  // from what is available at first down to the threshold
	beyondMiB   = 300  // what a hog takes beyond the threshold
	slowest     = 100  // MiB/s
	fastest     = 3072 // MiB/s
	termDelayMS = 300
	// missedAfter: evictd polls every 10 s, so a reaction this late may be the poll's.
	missedAfter   = time.Second
	roundDeadline = 40 * time.Second
)

func TestMain(m *testing.M) {
	crossing.RunIfChild()
	if err := stack.AdoptOrphans(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// With an interval of 10 s only notifications can be fast. The threshold is
// crossed again and again, slowly and quickly, by a new pod each time: none of the
// crossings may be missed, and each takes one victim, the pod that caused it.
func TestNoCrossingIsMissed(t *testing.T) {
	if os.Getenv("EVICTD_TEST_E2E") != "1" {
		t.Skip("needs root and real containers: run make e2e")
	}
	rounds := 20
	if text := os.Getenv("EVICTD_CROSSINGS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 {
			t.Fatalf("EVICTD_CROSSINGS=%q, want a number from 2 on", text)
		}
		rounds = n
	}
	f := newField(t)
	var latencies []float64
	for i := range rounds {
		// Spread evenly by ratio: as many rounds per octave of speed.
		rate := int(math.Round(slowest * math.Pow(float64(fastest)/slowest, float64(i)/float64(rounds-1))))
		r := f.round(t, i+1, rate)
		t.Logf("%3d  %4d MiB/s  crossed -> SIGTERM %6.1f ms  (crossing known to %.1f ms)  gone after %4.0f ms", i+1, rate, r.latency, r.gap, r.gone)
		latencies = append(latencies, r.latency)
	}
	f.bystanderLives(t)
	slices.Sort(latencies)
	t.Logf("%d crossings, none missed, one victim each; crossed -> SIGTERM median %.1f ms, p99 %.1f ms, maximum %.1f ms",
		rounds, latencies[len(latencies)/2], latencies[(len(latencies)-1)*99/100], latencies[len(latencies)-1])
}

// A field is what all rounds share: one stack, one evictd, one sampler and a
// pod that nobody has a reason to touch.
type field struct {
	stack     *stack.Stack
	agent     *agent.Agent
	watch     *crossing.Watch
	bystander *stack.Pod
	witness   hog.Station
	threshold int64
	started   int // pods so far
}

func newField(t *testing.T) *field {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := stack.Start(t.Context(), stack.Options{Name: "evictd-crossings"})
	must(err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	program, err := hog.Install(t.Context(), s)
	must(err)
	must(hog.WarmUp(t.Context(), s, program, distanceMiB+2*beyondMiB))
	f := &field{stack: s}
	f.bystander, f.witness = f.run(t, "bystander", 64, 400, map[string]string{"cpu": "100m", "memory": "128Mi"})
	f.watch, err = crossing.Start(t.Context(), s)
	must(err)
	t.Cleanup(func() { _ = f.watch.Stop() }) // its context ends first, and with it the sampler

	available, err := crossing.Available()
	must(err)
	f.threshold = available - distanceMiB*mib
	bin, err := filepath.Abs("../../bin")
	must(err)
	plugins, err := filepath.Glob(filepath.Join(bin, "plugins", "*"))
	must(err)
	if len(plugins) == 0 {
		t.Fatal("bin/plugins is empty: run make build first")
	}
	f.agent, err = agent.Start(t.Context(), s, agent.Options{
		Binary: filepath.Join(bin, "evictd"), Plugins: plugins,
		Config: map[string]any{
			"evictionHard":       map[string]string{"memory.available": strconv.FormatInt(f.threshold, 10)},
			"monitoringInterval": "10s",
		},
	})
	must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of evictd's log:\n%s", f.agent.LogTail())
		}
		if err := f.agent.Stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

type result struct{ latency, gap, gone float64 } // milliseconds

// round lets one new hog cross the threshold and waits until nothing of it is left.
func (f *field) round(t *testing.T, n, rateMiB int) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
	defer cancel()
	toTake := f.waitRoom(ctx, t)/mib + beyondMiB
	before := len(f.agent.Records("evicting pod"))
	pod, station := f.run(t, fmt.Sprintf("hog-%d", n), int(toTake), rateMiB, nil)
	if before != n-1 {
		t.Fatalf("round %d: evictd decided %d evictions before the hog started, want %d", n, before, n-1)
	}
	if err := f.watch.Arm(f.threshold); err != nil {
		t.Fatal(err)
	}
	if err := station.Release(ctx); err != nil {
		t.Fatal(err)
	}
	crossed := f.waitCrossing(ctx, t)
	term, err := station.WaitStamp(ctx, "term")
	if err != nil {
		t.Fatalf("round %d at %d MiB/s: %v", n, rateMiB, err)
	}
	if at, err := station.Stamps(); err != nil || crossed.At < at["go"] {
		t.Fatalf("round %d: something else took the memory before the hog did (%v): run this on a quiet machine", n, err)
	}
	if late := time.Duration(term - crossed.At); late > missedAfter {
		t.Errorf("round %d at %d MiB/s: SIGTERM %v after the crossing: the notification was missed", n, rateMiB, late)
	}
	if err := pod.WaitGone(ctx); err != nil {
		t.Fatal(err)
	}
	gone := crossing.Now()
	// From here to the next hog's start nothing of ours is under the threshold.
	if err := f.watch.Arm(f.threshold); err != nil {
		t.Fatal(err)
	}
	finished := func(r agent.Record) bool { return r.Msg == "pod finished" && r.String("pod") == pod.Key() }
	if _, err := f.agent.Wait(ctx, finished); err != nil {
		t.Fatalf("round %d: evictd did not report %s as finished: %v", n, pod.Key(), err)
	}
	decisions := f.agent.Records("evicting pod")
	if len(decisions) != n && f.disturbed() {
		t.Fatalf("round %d: something else took the memory after the hog was gone: run this on a quiet machine", n)
	}
	if len(decisions) != n || decisions[n-1].String("pod") != pod.Key() {
		t.Fatalf("round %d: evictd decided %d evictions so far, the last on %s; want %d and %s",
			n, len(decisions), decisions[len(decisions)-1].String("pod"), n, pod.Key())
	}
	if err := pod.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	return result{latency: ms(term - crossed.At), gap: ms(int64(crossed.Gap)), gone: ms(gone - crossed.At)}
}

// disturbed reports whether memory was short since the last Arm though no hog was there.
func (f *field) disturbed() bool {
	for {
		select {
		case sample, ok := <-f.watch.Samples():
			if !ok || sample.Crossed {
				return ok
			}
		default:
			return false
		}
	}
}

// waitRoom waits until most of the distance is there again and returns it in bytes.
func (f *field) waitRoom(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	for {
		select {
		case <-ctx.Done():
			t.Fatal("memory did not come back after the former round: run this on a quiet machine")
		case sample, ok := <-f.watch.Samples():
			if !ok {
				t.Fatal("the sampler died")
			}
			if room := sample.AvailableBytes - f.threshold; room > distanceMiB*mib*3/4 && crossing.Now()-sample.At < int64(200*time.Millisecond) {
				return room
			}
		}
	}
}

func (f *field) waitCrossing(ctx context.Context, t *testing.T) crossing.Sample {
	t.Helper()
	for {
		select {
		case <-ctx.Done():
			t.Fatal("memory.available never fell below the threshold")
		case sample, ok := <-f.watch.Samples():
			if !ok {
				t.Fatal("the sampler died")
			}
			if sample.Crossed {
				return sample
			}
		}
	}
}

func (f *field) bystanderLives(t *testing.T) {
	t.Helper()
	running, err := f.bystander.Running(t.Context())
	at, stampErr := f.witness.Stamps()
	if err != nil || stampErr != nil || !running || at["term"] != 0 {
		t.Errorf("the bystander: running %v (%v), SIGTERM at %d (%v); want it untouched", running, err, at["term"], stampErr)
	}
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }
