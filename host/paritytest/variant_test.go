package paritytest

import (
	"log/slog"
	"testing"

	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/paritytest/embedded"
	"github.com/evictd/evictd/host/paritytest/generate"
)

// With plugins that the kubelet does not have, and with plugins that fail, evictd
// keeps to the kubelet as far as it can.
func TestVariantsKeepToTheKubelet(t *testing.T) {
	for name, v := range map[string]struct {
		variant embedded.Variant
		// prepare changes the scenario, for both sides.
		prepare func(*replay.Scenario)
		// anyVictim: who goes is another matter, whether somebody does is not.
		anyVictim bool
	}{
		"evictd ranks by itself where rankers fail":            {variant: embedded.RankersFail},
		"comparators rank as plugins do":                       {variant: embedded.Comparators},
		"memory by its working set alone":                      {variant: embedded.WorkingSetOnly},
		"a signal of a vendor's is none of the others' matter": {variant: embedded.CustomSignal, prepare: withLimits},
		"a vendor's ranker changes only who goes":              {variant: embedded.ByQoS, anyVictim: true},
		"pods without figures do not keep others alive":        {variant: embedded.SomeUnmeasured, prepare: withoutLimits, anyVictim: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range int64(*variants) {
				s := generate.Scenario(*firstSeed + seed)
				if len(s.Quirks) > 0 {
					continue
				}
				if v.prepare != nil {
					v.prepare(s)
				}
				compareVariant(t, s, s, v.variant, v.anyVictim)
			}
		})
	}
}

// Where all observers fail it is as if the kubelet had got no summary.
func TestObserversThatFailAreASummaryThatFails(t *testing.T) {
	t.Parallel()
	for seed := range int64(*variants) {
		s := generate.Scenario(*firstSeed + seed)
		if len(s.Quirks) > 0 || len(s.Steps) == 0 || s.Steps[0].DiskInfoError != "" || s.Steps[0].SummaryError != "" {
			continue // the plugins have to tell the layout first
		}
		withoutLimits(s) // which evictd checks all the same where pods are measured
		failing := func(step int) bool { return step > 0 && (int(seed)+step)%3 == 0 }
		kubelets := *s
		kubelets.Steps = append([]replay.Step{}, s.Steps...)
		for i := range kubelets.Steps {
			if failing(i) {
				kubelets.Steps[i].SummaryError = "the source does not answer"
			}
		}
		compareVariant(t, s, &kubelets, embedded.ObserversFail(failing), false)
	}
}

// withLimits keeps a node where nothing is configured from being left alone.
func withLimits(s *replay.Scenario) { s.Config.LocalStorageCapacityIsolation = true }

// withoutLimits: who cannot be measured cannot be over a limit either.
func withoutLimits(s *replay.Scenario) { s.Config.LocalStorageCapacityIsolation = false }

func compareVariant(t *testing.T, s, kubelets *replay.Scenario, v embedded.Variant, anyVictim bool) {
	t.Helper()
	ours, err := embedded.Replay(t.Context(), s, slog.New(slog.DiscardHandler), v)
	if err != nil {
		t.Errorf("seed %d: %v", s.Seed, err)
		return
	}
	judge := theKubelet.Judge
	if anyVictim {
		judge = theKubelet.JudgeButVictims
	}
	difference, want, err := judge(t.Context(), kubelets, ours)
	switch {
	case err != nil:
		t.Errorf("seed %d: %v", s.Seed, err)
	case difference != nil:
		t.Errorf("seed %d: %s", s.Seed, report(kubelets, ours.Decisions, want, difference))
	}
}
