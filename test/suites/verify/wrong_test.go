package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/evictd/evictd/shared/conformance"
	"github.com/evictd/evictd/test/fakes/broken/fault"
	"github.com/evictd/evictd/test/harness/daemon"
)

// leastCaught is the minimum of the wrong plugins that verify has to catch.
const leastCaught = 32

// wrongPlugins have one fault each and are right in all else, with the check that has to fail
// and the groups of checks to run: all of them for each plugin take minutes. Without a check it
// is known not to be seen. Alone is one whose check has to see what it takes of the machine's
// memory, which the others take too.
var wrongPlugins = map[string]struct {
	only, check string
	flags       []string
	alone       bool
}{
	"figures that never change":                    {only: "machine", check: "machine-follows"},
	"a fresh time on an old figure":                {only: "machine", check: "machine-follows"},
	"used for available":                           {only: "machine", check: "machine-follows", alone: true},
	"0 every other time":                           {only: "machine", check: "machine-follows"},
	"sleeps longer with more pods":                 {only: "steady", check: "steady-scale"},
	"capacity in KiB":                              {only: "machine", check: "machine-figures"},
	"memory is absent":                             {only: "machine", check: "machine-figures"},
	"observes what nobody asked for":               {only: "observe", check: "observe-only-asked"},
	"reclaims once":                                {only: "reclaim", check: "reclaim-again", flags: []string{"--reclaim"}},
	"leaks memory in Observe":                      {only: "steady", check: "steady-observe"},
	"leaks a thread in Observe":                    {only: "steady", check: "steady-observe"},
	"measures nobody":                              {only: "measure", check: "measure-answers"},
	"measures zeros for pods that are not there":   {only: "measure", check: "measure-no-pod"},
	"leaks memory in Measure":                      {only: "steady", check: "steady-measure"},
	"works on when it is cancelled":                {only: "measure,process", check: "idle"},
	"the order depends on the pass":                {only: "steady", check: "steady-rank"},
	"shuffles now and then":                        {only: "steady", check: "steady-rank"},
	"spares whom it named the last time":           {only: "rank", check: "rank-deterministic"},
	"takes quadratic time":                         {only: "steady", check: "steady-scale"},
	"leaks memory in Rank":                         {only: "steady", check: "steady-rank-growth"},
	"leaves zombies":                               {only: "steady", check: "steady-rank-growth"},
	"ranks nobody":                                 {only: "rank", check: "rank-somebody"},
	"takes pods of the same name for one":          {only: "rank", check: "rank-namesakes"},
	"panics when less than nothing is available":   {only: "steady", check: "steady-rank"},
	"hangs with many pods":                         {only: "rank", check: "rank"},
	"floods with wakes":                            {only: "watch", check: "watch-quiet"},
	"never wakes":                                  {only: "watch", check: "watch-wakes", alone: true},
	"takes over what is right in a refused config": {only: "describe", check: "configure-keeps-former", flags: []string{"--config"}},
	"accepts unknown fields":                       {only: "describe", check: "configure-unknown-field"},
	"another description once it is configured":    {only: "describe", check: "configure-description"},
	"a schema that does not compile":               {only: "describe", check: "configure"},
	"a schema with a remote reference":             {only: "describe", check: "configure"},
	"a schema that takes forever":                  {only: "describe", check: "configure"},
	"a schema that refuses a good configuration":   {only: "describe", check: "configure", flags: []string{"--config"}},
	"another description in each process":          {only: "process", check: "describe-restarted"},
	"claims to have freed what it did not":         {only: "reclaim", check: "reclaim-claims", flags: []string{"--reclaim"}},
	"leaves a child in a session of its own":       {only: "process", check: "survivors"},
	"serves one connection and ends":               {only: "process", check: "reconnect"},
	"needs to be root":                             {only: "describe", check: "start", flags: []string{"--user", "nobody"}},
	"needs much memory":                            {only: "describe", check: "start", flags: []string{"--memory-limit", "64Mi"}},
	"prints on standard output":                    {only: "observe,process", check: "stdout"},
	"ignores SIGTERM":                              {only: "process", check: "sigterm"},
	"opens a port":                                 {only: "process"}, // plugins may ask services of theirs
}

// A plugin that nobody finds fault with goes onto nodes: each of these was given to
// `plugins verify` once, and most of them passed.
func TestWrongPluginsAreCaught(t *testing.T) { catchWrong(t, false) }

// Nor does one on a socket, but for what is wrong with the start and the end of its process. The checks of calls are the same:
// one plugin for each group of them, all in make nightly.
func TestWrongPluginsAreCaughtOnASocket(t *testing.T) { catchWrong(t, true) }

// ofProcess are the checks of a plugin that verify starts.
var ofProcess = []string{"describe-restarted", "survivors", "reconnect", "start", "stdout", "sigterm"}

func catchWrong(t *testing.T, socket bool) {
	t.Helper()
	requireRoot(t)
	evictctl, broken := daemon.Build(t, "evictctl"), daemon.Build(t, "broken")
	var caught atomic.Int32
	tried, groups := 0, map[string]bool{}
	t.Run("each", func(t *testing.T) { // ends when all of them have
		for _, wrong := range slices.Sorted(maps.Keys(wrongPlugins)) {
			c := wrongPlugins[wrong]
			if socket && (slices.Contains(ofProcess, c.check) || groups[c.only] && os.Getenv("EVICTD_NIGHTLY") == "") {
				continue
			}
			tried++
			groups[c.only] = true
			t.Run(wrong, func(t *testing.T) {
				if !c.alone {
					t.Parallel()
				}
				failed, err := verifyWrong(t, evictctl, broken, wrong, socket, append([]string{"--only", c.only}, c.flags...))
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
	t.Attr("wrong-plugins-caught-by-verify", fmt.Sprintf("%d of %d", caught.Load(), tried))
	if least := min(leastCaught, tried-1); int(caught.Load()) < least { // one is known not to be caught
		t.Errorf("verify catches %d of %d wrong plugins, want at least %d", caught.Load(), tried, least)
	}
}

// What the wrong ones are made of passes, with each of the flags that they are given.
func TestThePluginThatIsNotWrongPasses(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	evictctl, broken := daemon.Build(t, "evictctl"), daemon.Build(t, "broken")
	for name, flags := range map[string][]string{
		"as it is": nil, "configured": {"--config"}, "with reclaim": {"--reclaim"},
		"confined": {"--user", "nobody", "--memory-limit", "64Mi", "--reclaim"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed, err := verifyWrong(t, evictctl, broken, "nothing", false, flags)
			if err != nil || len(failed) > 0 {
				t.Errorf("failed %q: %v", failed, err)
			}
		})
	}
}

// verifyWrong returns the names of the checks that failed.
func verifyWrong(t *testing.T, evictctl, broken, wrong string, socket bool, flags []string) ([]string, error) {
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
	if socket {
		at := filepath.Join(dir, "p.sock")
		daemon.Outside(t, path, at)
		args = append(args, "--socket")
		path = at
	}
	got := verify(t, evictctl, 0, append(args, path)...)
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
