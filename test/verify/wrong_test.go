package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/evictd/evictd/shared/conformance"
	"github.com/evictd/evictd/test/daemon"
	"github.com/evictd/evictd/test/faults/fault"
)

// leastCaught is how many of the wrong plugins verify has to catch.
const leastCaught = 25

// wrongPlugins are what is wrong with a plugin that is right in all else, each with
// the check that has to fail. Without one it is known not to be seen.
var wrongPlugins = map[string]struct {
	check string
	flags []string
}{
	fault.FiguresNeverChange:       {check: "machine-follows"},
	fault.FreshTimeOnAnOldFigure:   {check: "machine-follows"},
	fault.CapacityInKiB:            {check: "machine-figures"},
	fault.MemoryIsAbsent:           {check: "machine-figures"},
	fault.ObservesUnasked:          {check: "observe-only-asked"},
	fault.ReclaimsOnce:             {check: "reclaim-again", flags: []string{"--reclaim"}},
	fault.LeaksMemoryInObserve:     {check: "steady-observe"},
	fault.LeaksAThread:             {check: "steady-observe"},
	fault.MeasuresNobody:           {check: "measure-answers"},
	fault.MeasuresZeros:            {check: "measure-no-pod"},
	fault.LeaksMemoryInMeasure:     {check: "steady-measure"},
	fault.WorksOnWhenCancelled:     {check: "idle"},
	fault.OrderDependsOnPass:       {check: "steady-rank"},
	fault.ShufflesNowAndThen:       {check: "steady-rank"},
	fault.SparesWhomItNamed:        {check: "rank-deterministic"},
	fault.Quadratic:                {check: "steady-scale"},
	fault.LeaksMemoryInRank:        {check: "steady-rank-growth"},
	fault.LeaksChildren:            {check: "steady-rank-growth"},
	fault.RanksNobody:              {check: "rank-somebody"},
	fault.KeyedByName:              {check: "rank-namesakes"},
	fault.PanicsBelowZero:          {check: "steady-rank"},
	fault.HangsWithMany:            {check: "rank"},
	fault.WatchFloods:              {check: "watch-quiet"},
	fault.NeverWakes:               {check: "watch-wakes"},
	fault.TakesHalfOfAConfig:       {check: "configure-keeps-former", flags: []string{"--config"}},
	fault.AcceptsUnknownFields:     {check: "configure-unknown-field"},
	fault.DescriptionFollowsConfig: {check: "configure-description"},
	fault.DescriptionIsRandom:      {check: "describe-restarted"},
	fault.ClaimsWithoutFreeing:     {check: "reclaim-claims", flags: []string{"--reclaim"}},
	fault.LeavesAChild:             {check: "survivors"},
	fault.ServesOneConnection:      {check: "reconnect"},
	fault.NeedsRoot:                {check: "start", flags: []string{"--user", "nobody"}},
	fault.NeedsMuchMemory:          {check: "start", flags: []string{"--memory-limit", "64Mi"}},
	fault.Prints:                   {check: "stdout"},
	fault.IgnoresSIGTERM:           {check: "sigterm"},
	fault.OpensAPort:               {}, // plugins may ask services of theirs
}

// A plugin that nobody finds fault with goes onto nodes: each of these was given to
// `plugins verify` once, and most of them passed.
func TestWrongPluginsAreCaught(t *testing.T) {
	requireRoot(t)
	evictd, broken := daemon.Build(t, "evictd"), daemon.Build(t, "broken")
	failed := verifyAll(t, evictd, broken)
	caught := 0
	for wrong, c := range wrongPlugins {
		t.Run(wrong, func(t *testing.T) {
			got := failed[wrong]
			switch {
			case c.check == "" && len(got) > 0:
				t.Errorf("failed %q: say in the table what catches it now", got)
			case c.check != "" && !slices.Contains(got, c.check):
				t.Errorf("%s did not fail, but %q", c.check, got)
			}
		})
		if len(failed[wrong]) > 0 {
			caught++
		}
	}
	t.Logf("plugins verify catches %d of %d wrong plugins", caught, len(wrongPlugins))
	if caught < leastCaught {
		t.Errorf("verify catches %d of %d wrong plugins, want at least %d", caught, len(wrongPlugins), leastCaught)
	}
}

// verifyAll verifies the wrong plugins, more at a time than there are processors: most of
// a run is waiting.
func verifyAll(t *testing.T, evictd, broken string) map[string][]string {
	t.Helper()
	const atOnce = 5
	failed := map[string][]string{}
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for wrong, c := range wrongPlugins {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			got, err := verifyWrong(t, evictd, broken, wrong, c.flags)
			mu.Lock()
			defer mu.Unlock()
			if failed[wrong] = got; err != nil {
				t.Errorf("%s: %v", wrong, err)
			}
		})
	}
	running.Wait()
	return failed
}

// What the wrong ones are made of passes, with each of the flags that they are given.
func TestThePluginThatIsNotWrongPasses(t *testing.T) {
	requireRoot(t)
	evictd, broken := daemon.Build(t, "evictd"), daemon.Build(t, "broken")
	for name, flags := range map[string][]string{
		"as it is": nil, "configured": {"--config"}, "with reclaim": {"--reclaim"},
		"confined": {"--user", "nobody", "--memory-limit", "64Mi", "--reclaim"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed, err := verifyWrong(t, evictd, broken, fault.None, flags)
			if err != nil || len(failed) > 0 {
				t.Errorf("failed %q: %v", failed, err)
			}
		})
	}
}

// verifyWrong returns the names of the checks that failed.
func verifyWrong(t *testing.T, evictd, broken, wrong string, flags []string) ([]string, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "wrong-") // t.TempDir is below a directory of root's
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	config, path := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "wrong")
	if err := errors.Join(
		os.Chmod(dir, 0o755),
		os.WriteFile(config, []byte("reverse: false\n"), 0o644),
		fault.Install(broken, path, fault.Fault{Kind: fault.Wrong, Variant: wrong}),
	); err != nil {
		return nil, err
	}
	args := []string{"--json", "--timeout", "2m"}
	for _, flag := range flags {
		if args = append(args, flag); flag == "--config" {
			args = append(args, config)
		}
	}
	got := verify(t, evictd, 0, append(args, path)...)
	var report conformance.Report
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		return nil, fmt.Errorf("%w: %s%s", err, got.errs, got.out)
	}
	var failed []string
	for i := range report.Checks {
		if c := &report.Checks[i]; c.Result == conformance.Failed {
			failed = append(failed, c.Name)
			t.Logf("%s: %s: %.200s", wrong, c.Name, c.Seen)
		}
	}
	return failed, nil
}
