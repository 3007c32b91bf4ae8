package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

func TestWhichFilesAreScenarios(t *testing.T) {
	files, passedOver := scenarioFiles([]string{"a.json", "README.md", "b.json.gz", "c.yaml", "d.yml.gz", "e.gz", "json"})
	if diff := cmp.Diff([][]string{{"a.json", "b.json.gz", "c.yaml", "d.yml.gz"}, {"README.md", "e.gz", "json"}}, [][]string{files, passedOver}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPluginsStandBesideTheProgram(t *testing.T) {
	n := newNode(t) // with plugins/memory
	for name, c := range map[string]struct {
		self string
		err  error
		want string
	}{
		"beside it":       {filepath.Join(n.dir, "evictd"), nil, n.plugins},
		"none beside it":  {filepath.Join(n.dir, "bin", "evictd"), nil, config.Default().PluginDir},
		"no path of ours": {"", errors.New("no /proc"), config.Default().PluginDir},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pluginsBeside(func() (string, error) { return c.self, c.err }); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestReplayIsRefused(t *testing.T) {
	n := newNode(t)
	scenario := filepath.Join(n.dir, "a.yaml")
	testos.WriteFile(t, scenario, "step: []\nsteps: [{summary: {}, advanceSeconds: soon}]\n", 0o600)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"without a file":   {nil, command.ExitUsage, "requires at least 1 arg"},
		"without plugins":  {[]string{"--plugin-dir", n.manifests, scenario}, command.ExitUsage, "--plugin-dir: \"" + n.manifests + "\": has no executable in it"},
		"other files only": {[]string{"--plugin-dir", n.plugins, "README.md"}, command.ExitUsage, "evictctl: no scenario given"},
		"both forms":       {[]string{"--json", "--check", scenario}, command.ExitUsage, "none of the others can be"},
		"log level":        {[]string{"--plugin-dir", n.plugins, "--log-level", "loud", scenario}, command.ExitUsage, `--log-level: "loud": want "debug"`},
		"a bad scenario, all of it": {
			[]string{"--plugin-dir", n.plugins, scenario},
			command.ExitUsage,
			"evictctl: " + scenario + `: steps[0].advanceSeconds: "soon": json: cannot unmarshal string into Go value of type float64: want a number of seconds` + "\nevictctl: " + scenario + ": step: unknown field",
		},
		"no such file, as JSON": {[]string{"--plugin-dir", n.plugins, "--json", filepath.Join(n.dir, "absent.json")}, command.ExitUsage, "absent.json: no such file"},
		"a bad trace to check":  {[]string{"--plugin-dir", n.plugins, "--check", scenario}, command.ExitFailure, "evictctl: decisions differ"},
	} {
		t.Run(name, func(t *testing.T) {
			got := evictctl(t, append([]string{"replay"}, c.args...)...)
			if got.Code != c.code || !strings.Contains(got.Errors, c.want) {
				t.Errorf("exit code %d, want %d\n%swant %s", got.Code, c.code, got.Errors, c.want)
			}
		})
	}
}

// A refused configuration needs no plugin to run.
func TestReplayOfARefusedConfiguration(t *testing.T) {
	n := newNode(t)
	scenario := filepath.Join(n.dir, "refused.yaml")
	testos.WriteFile(t, scenario, "config: {evictionHard: {foo: 1Gi}}\nsteps: [{summary: {}}]\n", 0o600)
	got := evictctl(t, "replay", "--plugin-dir", n.plugins, "--json", scenario)
	if want := `{"schemaVersion":1,"oracle":"evictd","scenario":"refused","configError":"evictionHard[\"foo\"]: unsupported`; got.Code != 0 || !strings.HasPrefix(got.Out, want) {
		t.Errorf("exit code %d, %s%s", got.Code, got.Out, got.Errors)
	}
	if got := evictctl(t, "replay", "--plugin-dir", n.plugins, scenario); got.Code != 0 || !strings.Contains(got.Out, "\n  refused     evictionHard") {
		t.Errorf("exit code %d, %s%s", got.Code, got.Out, got.Errors)
	}
}

// The manager runs in a directory of its own, and a relative path was looked for there.
func TestAPluginDirectoryIsRelativeToTheCaller(t *testing.T) {
	n := newNode(t)
	t.Chdir(filepath.Dir(n.plugins))
	testos.WriteFile(t, "record.yaml", "steps: [{summary: {}}]\n", 0o600)
	if got := evictctl(t, "replay", "--plugin-dir", filepath.Base(n.plugins), "record.yaml"); got.Code == command.ExitUsage || strings.Contains(got.Errors, "no such file") {
		t.Errorf("exit code %d, %s%s", got.Code, got.Out, got.Errors)
	}
}

// A plugin that wants a configuration and has none was absent from a replay without a
// word.
func TestPluginsThatDoNotStartAreReported(t *testing.T) {
	n := newNode(t)
	testos.WriteFile(t, filepath.Join(n.plugins, "memory"), "#!/bin/sh\nexit 1\n", 0o755)
	var scenarios []string
	for _, name := range []string{"a.yaml", "b.yaml"} {
		scenarios = append(scenarios, filepath.Join(n.dir, name))
		testos.WriteFile(t, scenarios[len(scenarios)-1], "steps: [{summary: {}}]\n", 0o600)
	}
	got := evictctl(t, append([]string{"replay", "--plugin-dir", n.plugins}, scenarios...)...)
	if got.Code != 0 || !strings.HasPrefix(got.Errors, "evictctl: plugin memory did not start: ") || strings.Count(got.Errors, "\n") != 1 {
		t.Errorf("exit code %d, errors %q, want one line of the plugin for both scenarios", got.Code, got.Errors)
	}
	got = evictctl(t, append([]string{"replay", "--log-level", "error", "--plugin-dir", n.plugins}, scenarios...)...)
	if strings.HasPrefix(got.Errors, "evictctl: ") || strings.Count(got.Errors, `"msg":"plugin did not start"`) != 2 {
		t.Errorf("with the log: %q, want its lines alone", got.Errors)
	}
}

func TestVerdictsAsText(t *testing.T) {
	quirky := &replay.Trace{Scenario: &replay.Scenario{Quirks: []string{"panic", "other"}}}
	for want, c := range map[string]struct {
		done replayed
		v    replay.Verdict
	}{
		"":                                     {replayed{file: "a.json"}, replay.Verdict{Result: replay.Passed}},
		"FAIL a.json\n  one\n  two\n":          {replayed{file: "a.json"}, replay.Verdict{Result: replay.Failed, Why: "a.json: one\na.json: two"}},
		"SKIP a.json (panic, other)\n  sane\n": {replayed{file: "a.json", trace: quirky}, replay.Verdict{Result: replay.Skipped, Why: "sane"}},
	} {
		if got := verdictText(c.done, c.v); string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestReplaysComeInTheirOrder(t *testing.T) {
	var r replayer
	files := strings.Fields(strings.Repeat("/absent/a.json /absent/b.json /absent/c.json ", 20))
	var got []string
	if err := r.each(t.Context(), files, func(done replayed) error {
		got = append(got, done.file)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	full := errors.New("no space")
	if err := r.each(t.Context(), files, func(replayed) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v, want what use returned", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := checkReplays(ctx, &out, &r, files); !errors.Is(err, errInterrupted) || out.Len() > 0 {
		t.Errorf("interrupted: got %v and %q", err, out.String())
	}
}

func TestScratchDirectoriesHaveShortPaths(t *testing.T) {
	for parent, want := range map[string]string{t.TempDir(): "/tmp", "/tmp": "/tmp", "/dev/shm": "/dev/shm"} {
		dir, err := scratchDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if filepath.Dir(dir) != want {
			t.Errorf("%s: got %s, want it in %s", parent, dir, want)
		}
	}
}

// A plugin that did not run was "no pod goes instead", and exit code 0.
func TestAReplayOfARecordWithoutFiguresHasNoVerdict(t *testing.T) {
	n := newNode(t)
	testos.WriteFile(t, filepath.Join(n.plugins, "memory"), "#!/bin/sh\nexit 1\n", 0o755)
	id := decision.NewID(time.Now())
	r := choice(id, "rt/x.json")
	state, with := recorded(t, r), filepath.Join(n.dir, "with.yaml")
	testos.WriteFile(t, with, "evictionHard: {pid.available: \"100\"}\nenforceNodeAllocatable: []\n", 0o600)
	file := filepath.Join(state, "records", id+"_rt_x.json_"+r.Victim.UID+".json.gz")
	const want = "plugin memory did not start: exited before the handshake"
	explained := filepath.Join(n.dir, "explained.json") // as kubectl evictd replay takes it
	testos.WriteFile(t, explained, evictctl(t, "explain", "--json", "--state-dir", state, id).Out, 0o600)
	for _, args := range [][]string{{id}, {"rt/x.json"}, {file}, {explained}, {"--since", "1d"}, {"--json", id}} {
		got := evictctl(t, append([]string{"replay", "--plugin-dir", n.plugins, "--state-dir", state}, args...)...)
		if got.Code != command.ExitFailure || !strings.Contains(got.Errors, want) || strings.Contains(got.Out, "as recorded") {
			t.Errorf("replay %q: %d, %s%s", args, got.Code, got.Out, got.Errors)
		}
	}
	got := evictctl(t, "replay", "--plugin-dir", n.plugins, "--state-dir", state, "--with", with, id)
	if got.Code != command.ExitFine || !strings.Contains(got.Out, id+": no pod goes instead of rt/x.json") {
		t.Errorf("without a threshold of the signal: %d, %s%s", got.Code, got.Out, got.Errors)
	}
	if got := evictctl(t, "replay", "--plugin-dir", n.plugins, "--state-dir", recorded(t), "--since", "7d"); got.Code != command.ExitFailure || !strings.Contains(got.Errors, "--since: 168h0m0s: no record of an eviction in ") {
		t.Errorf("replay of none: %d, %s", got.Code, got.Errors)
	}
}

// choice returns a record of an eviction for memory.
func choice(id, pod string) *decision.Decision {
	return &decision.Decision{
		Version: decision.Version, ID: id, Kind: decision.KindEviction, Time: time.Now(), Now: time.Now(), Node: "n",
		Thresholds:   []decision.Threshold{{Signal: eviction.MemoryAvailable, Value: "1Gi", GraceOver: true, Actionable: true, Acted: true}},
		Observations: []decision.Observation{{Signal: eviction.MemoryAvailable, State: decision.StateObserved, Available: 900 << 20, Capacity: 8 << 30}},
		Candidates:   []decision.Candidate{{UID: "x-1", Pod: pod, Usage: 1 << 30}}, Order: []int{0},
		Victim: &decision.Victim{UID: "x-1", Pod: pod, Signal: "memory.available"},
	}
}

// fallen returns a record of memory that fell by 300Mi a second to 900Mi, with the pods that were first.
func fallen() *decision.Decision {
	r := choice("r1", "shop/report")
	r.Time = time.Unix(1_800_000_000, 0)
	s := decision.Series{Signal: eviction.MemoryAvailable, Unit: 100 << 20, Available: []int64{69}}
	for range 20 {
		s.Available = append(s.Available, -3)
	}
	r.Signals = []decision.Series{s}
	r.Usage = []decision.UsageSample{{MS: -11_900, First: "shop/web"}, {MS: -4_000, First: "shop/web"}}
	return r
}

// Another threshold was tried on the figures of one moment: at 2Gi the same pod went, "as recorded", when
// another one had been first four seconds before; and at 500Mi none went, though a second later it had.
func TestAnotherThresholdIsTriedOnTheSamples(t *testing.T) {
	r := fallen()
	for threshold, want := range map[string]string{
		"memory.available<2Gi":           "memory.available<2Gi would have been met 3s earlier (exact to the second); 1s before that shop/web was first (estimated)",
		"memory.available<2200Mi":        "memory.available<2200Mi would have been met 4s earlier (exact to the second), when shop/web was first",
		"memory.available<1Gi":           "r1: no pod goes",
		"memory.available<500Mi":         "not met by then (exact to the second); at the rate of the last ten seconds 2s later (estimated)",
		"memory.available<4Gi for 30s":   "met, with 20s of its grace period left (exact to the second)",
		"memory.available<80%":           "memory.available<80% would have been met 18s earlier (exact to the second); 6s after that shop/web was first (estimated)",
		"memory.available<90%":           "memory.available<90% would have been met at least 20s earlier (exact to the second); 8s after that shop/web was first (estimated)",
		"memory.available<1023Mi for 5s": "met, with 5s of its grace period left (exact to the second)",
	} {
		parsed, err := config.ParseThreshold(threshold)
		if err != nil {
			t.Fatal(err)
		}
		if got := otherwise(r, []policy.Threshold{parsed}, "r1: no pod goes"); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", threshold, got, want)
		}
	}
	file := filepath.Join(t.TempDir(), "r1.json")
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	testos.WriteFile(t, file, data, 0o600)
	got := evictctl(t, "explain", file, "--if", "memory.available<2Gi")
	if want := "\n  what if       memory.available<2Gi would have been met 3s earlier"; got.Code != 0 || !strings.Contains(got.Out, want) {
		t.Errorf("%s%s", got.Out, got.Errors)
	}
	for value, want := range map[string]string{
		"memory.available":          "want one such as",
		"memory.available<2Gi for ": "want one such as",
		"memory<2Gi":                "want one such as",
		"memory.available<much":     "want a quantity such as",
		"memory.available<-1":       "must be positive",
		"memory.available<250%":     "want",
		"pid.available<100":         "the record has no samples of pid.available",
	} {
		if got := evictctl(t, "explain", file, "--if", value); got.Code == 0 || !strings.Contains(got.Errors, want) {
			t.Errorf("--if %s: %d, %s", value, got.Code, got.Errors)
		}
	}
}

func TestVerdictsOfRecords(t *testing.T) {
	seen := loop.PassResult{Decision: decision.Decision{Observations: []decision.Observation{{Signal: eviction.MemoryAvailable, State: decision.StateObserved}}}}
	went := seen
	went.Evicted = []victim.Victim{{Kill: victim.Kill{Namespace: "shop", Name: "web"}}}
	for name, c := range map[string]struct {
		decisions replay.Decisions
		passes    []loop.PassResult
		want, err string
	}{
		"as recorded":        {replay.Decisions{Steps: make([]replay.StepDecision, 2)}, []loop.PassResult{seen, went}, "r1: shop/web goes, as recorded", ""},
		"none":               {replay.Decisions{Steps: make([]replay.StepDecision, 2)}, []loop.PassResult{seen, seen}, "r1: no pod goes instead of shop/web", ""},
		"a step that failed": {replay.Decisions{Steps: []replay.StepDecision{{Error: "no summary"}, {}}}, []loop.PassResult{{}, went}, "", "r1: not known which pod goes, step 0: no summary"},
		"no plugin":          {replay.Decisions{Steps: make([]replay.StepDecision, 2)}, []loop.PassResult{seen, {}}, "", "r1: not known which pod goes, step 1: no running plugin observes memory.available"},
	} {
		t.Run(name, func(t *testing.T) {
			trace, err := replay.FromRecord(choice("r1", "shop/web"))
			if err != nil {
				t.Fatal(err)
			}
			text, err := verdict(replayed{trace: trace, replay: &replay.Replay{Decisions: &c.decisions, Passes: c.passes}})
			if text != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("%q, %v, want %q, %s", text, err, c.want, c.err)
			}
		})
	}
}
