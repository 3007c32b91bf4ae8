package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/evictd/evictd/shared/conformance"
	"github.com/evictd/evictd/test/fakes/broken/fault"
	"github.com/evictd/evictd/test/harness/daemon"
)

// leastCaught is how many of the wrong plugins verify has to catch.
const leastCaught = 25

// wrongPlugins are what is wrong with a plugin that is right in all else, each with
// the check that has to fail and the groups of checks to run: all of them for each
// plugin take minutes. Without a check it is known not to be seen. Alone is one whose
// check has to see what it takes of the machine's memory, which the others take too.
var wrongPlugins = map[string]struct {
	only, check string
	flags       []string
	alone       bool
}{
	fault.FiguresNeverChange:       {only: "machine", check: "machine-follows"},
	fault.FreshTimeOnAnOldFigure:   {only: "machine", check: "machine-follows"},
	fault.CapacityInKiB:            {only: "machine", check: "machine-figures"},
	fault.MemoryIsAbsent:           {only: "machine", check: "machine-figures"},
	fault.ObservesUnasked:          {only: "observe", check: "observe-only-asked"},
	fault.ReclaimsOnce:             {only: "reclaim", check: "reclaim-again", flags: []string{"--reclaim"}},
	fault.LeaksMemoryInObserve:     {only: "steady", check: "steady-observe"},
	fault.LeaksAThread:             {only: "steady", check: "steady-observe"},
	fault.MeasuresNobody:           {only: "measure", check: "measure-answers"},
	fault.MeasuresZeros:            {only: "measure", check: "measure-no-pod"},
	fault.LeaksMemoryInMeasure:     {only: "steady", check: "steady-measure"},
	fault.WorksOnWhenCancelled:     {only: "measure,process", check: "idle"},
	fault.OrderDependsOnPass:       {only: "steady", check: "steady-rank"},
	fault.ShufflesNowAndThen:       {only: "steady", check: "steady-rank"},
	fault.SparesWhomItNamed:        {only: "rank", check: "rank-deterministic"},
	fault.Quadratic:                {only: "steady", check: "steady-scale"},
	fault.LeaksMemoryInRank:        {only: "steady", check: "steady-rank-growth"},
	fault.LeaksChildren:            {only: "steady", check: "steady-rank-growth"},
	fault.RanksNobody:              {only: "rank", check: "rank-somebody"},
	fault.KeyedByName:              {only: "rank", check: "rank-namesakes"},
	fault.PanicsBelowZero:          {only: "steady", check: "steady-rank"},
	fault.HangsWithMany:            {only: "rank", check: "rank"},
	fault.WatchFloods:              {only: "watch", check: "watch-quiet"},
	fault.NeverWakes:               {only: "watch", check: "watch-wakes", alone: true},
	fault.TakesHalfOfAConfig:       {only: "describe", check: "configure-keeps-former", flags: []string{"--config"}},
	fault.AcceptsUnknownFields:     {only: "describe", check: "configure-unknown-field"},
	fault.DescriptionFollowsConfig: {only: "describe", check: "configure-description"},
	fault.DescriptionIsRandom:      {only: "process", check: "describe-restarted"},
	fault.ClaimsWithoutFreeing:     {only: "reclaim", check: "reclaim-claims", flags: []string{"--reclaim"}},
	fault.LeavesAChild:             {only: "process", check: "survivors"},
	fault.ServesOneConnection:      {only: "process", check: "reconnect"},
	fault.NeedsRoot:                {only: "describe", check: "start", flags: []string{"--user", "nobody"}},
	fault.NeedsMuchMemory:          {only: "describe", check: "start", flags: []string{"--memory-limit", "64Mi"}},
	fault.Prints:                   {only: "observe,process", check: "stdout"},
	fault.IgnoresSIGTERM:           {only: "process", check: "sigterm"},
	fault.OpensAPort:               {only: "process"}, // plugins may ask services of theirs
}

// A plugin that nobody finds fault with goes onto nodes: each of these was given to
// `plugins verify` once, and most of them passed.
func TestWrongPluginsAreCaught(t *testing.T) {
	requireRoot(t)
	evictd, broken := daemon.Build(t, "evictd"), daemon.Build(t, "broken")
	var caught atomic.Int32
	t.Run("each", func(t *testing.T) { // ends when all of them have
		for wrong, c := range wrongPlugins {
			t.Run(wrong, func(t *testing.T) {
				if !c.alone {
					t.Parallel()
				}
				failed, err := verifyWrong(t, evictd, broken, wrong, append([]string{"--only", c.only}, c.flags...))
				switch {
				case err != nil:
					t.Fatal(err)
				case c.check == "" && len(failed) > 0:
					t.Errorf("failed %q: say in the table what catches it now", failed)
				case c.check != "" && !slices.Contains(failed, c.check):
					t.Errorf("%s did not fail, but %q", c.check, failed)
				}
				if len(failed) > 0 {
					caught.Add(1)
				}
			})
		}
	})
	t.Attr("wrong-plugins-caught-by-verify", fmt.Sprintf("%d of %d", caught.Load(), len(wrongPlugins)))
	if caught.Load() < leastCaught {
		t.Errorf("verify catches %d of %d wrong plugins, want at least %d", caught.Load(), len(wrongPlugins), leastCaught)
	}
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
		c := &report.Checks[i]
		if c.Result == conformance.Skipped && !c.Inapplicable || c.Result == conformance.Note {
			t.Logf("%s: %s %s: %.200s", wrong, c.Name, c.Result, c.Seen)
		}
		if c.Result == conformance.Failed {
			failed = append(failed, c.Name)
			t.Logf("%s: %s: %.200s", wrong, c.Name, c.Seen)
		}
	}
	return failed, nil
}
