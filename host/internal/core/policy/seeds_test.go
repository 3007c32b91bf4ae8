package policy

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

var (
	oneSeed = flag.Int("seed", -1, "run the property tests with this seed only")
	seeds   = flag.Int("seeds", 40, "run the property tests with so many seeds")
)

var stateInside = cmp.AllowUnexported(State{}, pressure{}, source{})

func sameState(a, b State) bool {
	return maps.Equal(a.firstObserved, b.firstObserved) && maps.Equal(a.met, b.met) &&
		maps.Equal(a.stamps, b.stamps) && maps.Equal(a.pressure, b.pressure)
}

// forSeeds checks random runs of passes. Of one that fails it reports what is left
// when no pass and no threshold can be taken out of it without it passing.
func forSeeds(t *testing.T, check func(run []Input) error) {
	t.Helper()
	seed, end := 0, *seeds
	if *oneSeed >= 0 {
		seed, end = *oneSeed, *oneSeed+1
	}
	for ; seed < end; seed++ {
		run := randomRun(rand.New(rand.NewPCG(uint64(seed), 7)))
		if check(run) == nil {
			continue
		}
		run = shrunk(run, check)
		t.Errorf("seed %d (-seed runs it alone): %v", seed, check(run))
		for _, in := range run {
			t.Logf("at %s, transition %s, thresholds %v, observations %v", in.Now.Sub(storyStart), in.TransitionPeriod, printed(in.Thresholds), in.Observations)
		}
		return
	}
}

// shrunk takes passes and thresholds out of run as long as it fails.
func shrunk(run []Input, check func([]Input) error) []Input {
	for smaller := true; smaller; {
		smaller = false
		for i := range run {
			if fewer := slices.Delete(slices.Clone(run), i, i+1); check(fewer) != nil {
				run, smaller = fewer, true
				break
			}
		}
		if len(run) == 0 {
			break
		}
		for i := range run[0].Thresholds { // all passes have the same
			fewer := slices.Clone(run)
			for j := range fewer {
				fewer[j].Thresholds = slices.Delete(slices.Clone(run[j].Thresholds), i, i+1)
			}
			if check(fewer) != nil {
				run, smaller = fewer, true
				break
			}
		}
	}
	return run
}

// onlyKnown makes every signal of a run known, absent where it was unknown.
func onlyKnown(run []Input) []Input {
	run = slices.Clone(run)
	for i, in := range run {
		run[i].Observations = maps.Clone(in.Observations)
		for _, s := range allSignals() {
			if in.Observations[s].State == eviction.Unknown {
				run[i].Observations[s] = eviction.Observation{Signal: s, State: eviction.Absent}
			}
		}
	}
	return run
}

func keys(thresholds []Threshold) map[Key]bool {
	out := map[Key]bool{}
	for _, t := range thresholds {
		out[t.Key()] = true
	}
	return out
}

func observedKeys(a Assessment) map[Key]Observed {
	out := map[Key]Observed{}
	for _, o := range a.Observed {
		out[o.Key()] = o
	}
	return out
}
