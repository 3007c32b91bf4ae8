package crossings_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/test/evictd"
	"github.com/evictd/evictd/test/hog"
	"github.com/evictd/evictd/test/stack"
	"github.com/evictd/evictd/test/stack/agent"
	"github.com/evictd/evictd/test/stack/crossing"
)

const (
	mib         = 1 << 20
	distanceMiB = 500 // from what is available at first down to the threshold
	// What a hog would take beyond the threshold. It is stopped there, so this is
	// for what others on the machine give back meanwhile.
	beyondMiB   = 1500
	warmMiB     = distanceMiB + 600
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
	for disturbances := 0; len(latencies) < rounds; {
		i := len(latencies)
		// Spread evenly by ratio: as many rounds per octave of speed.
		rate := int(math.Round(slowest * math.Pow(float64(fastest)/slowest, float64(i)/float64(rounds-1))))
		r, err := f.round(t, fmt.Sprintf("hog-%d", i+1), rate)
		if errors.Is(err, errDisturbed) && disturbances < 5 {
			disturbances++
			t.Logf("%3d  %4d MiB/s  %v: starting over with a new evictd", i+1, rate, err)
			f.close(t)
			f = newField(t)
			continue
		}
		if err != nil {
			t.Fatalf("round %d at %d MiB/s: %v", i+1, rate, err)
		}
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
	agent     *evictd.Process
	watch     *crossing.Watch
	bystander *stack.Pod
	witness   hog.Station
	threshold int64
	// pods and victims so far; short says that memory was short while no hog was there.
	pods, victims int
	short         bool
	once          sync.Once
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
	f := &field{stack: s}
	t.Cleanup(func() { f.close(t) })
	program, err := hog.Install(t.Context(), s)
	must(err)
	must(hog.WarmUp(t.Context(), s, program, warmMiB))
	f.bystander, f.witness = f.run(t, "bystander", 64, 400, map[string]string{"cpu": "100m", "memory": "128Mi"})
	f.watch, err = crossing.Start(t.Context(), s)
	must(err)
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
	return f
}

func (f *field) close(t *testing.T) {
	t.Helper()
	f.once.Do(func() {
		if f.agent != nil {
			if t.Failed() {
				t.Logf("the end of evictd's log:\n%s", f.agent.LogTail())
			}
			if err := f.agent.Stop(); err != nil {
				t.Error(err)
			}
		}
		if f.watch != nil {
			_ = f.watch.Stop() // at the end of the test its context ends first, and with it the sampler
		}
		if err := f.stack.Close(); err != nil {
			t.Error(err)
		}
	})
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
