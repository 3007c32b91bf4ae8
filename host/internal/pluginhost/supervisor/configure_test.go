package supervisor

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/eviction"
)

func configs(pairs ...string) map[string]Settings {
	m := map[string]Settings{}
	for n := 0; n < len(pairs); n += 2 {
		m[pairs[n]] = Settings{Config: []byte(pairs[n+1])}
	}
	return m
}

// config returns the configuration that a good plugin reports.
func config(o eviction.Observation) string { return o.Components[0].Name }

func TestReconfigureIsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "a", "b", "c"), func(o *Options) { o.Settings = configs("a", `{"n":1}`, "b", `{"n":1}`) })
	pid := h.plugin("a").PID

	err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, configs("a", `{"n":2}`, "b", `{"refuse":2}`, "c", `{"n":2}`))
	want(t, fmt.Sprint(err), "plugin b: configure: plugin refused: config.color: unknown field")
	for name, wanted := range map[string]string{"a": `{"n":1}`, "b": `{"n":1}`, "c": ""} {
		if got := config(h.observed(name)); got != wanted {
			t.Errorf("%s has %q after a refusal, want the former %q", name, got, wanted)
		}
	}
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, configs("a", `{"n":3}`, "b", `{"n":3}`)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if got := config(h.observed(name)); got != `{"n":3}` {
			t.Errorf("%s has %q, want the new one", name, got)
		}
	}
	if got := h.plugin("a").PID; got != pid {
		t.Errorf("pid %d, want the same process %d", got, pid)
	}
}

func TestReconfigureThatCrashesAPlugin(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "a", "b"), func(o *Options) { o.Settings = configs("a", "1", "b", "1") })
	crashed := h.plugin("b").PID
	err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, configs("a", "2", "b", "crash"))
	want(t, fmt.Sprint(err), "plugin b: configure: the plugin crashed (exit status 5)")
	eventually(t, "b runs again", func() bool { s := h.plugin("b"); return s.State == Running && s.PID != crashed })
	for _, name := range []string{"a", "b"} {
		if got := config(h.observed(name)); got != "1" {
			t.Errorf("%s has %q, want the former one", name, got)
		}
	}
}

func TestDisableAndEnable(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "a", "b"), func(o *Options) { o.Settings = map[string]Settings{"a": {Disabled: true}} })
	if s := h.plugin("a"); s.State != Disabled || s.PID != 0 {
		t.Errorf("a is %s, want it disabled", s.State)
	}
	p, i := h.pinned("b")
	drain(h.changed)
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"b": {Disabled: true}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a runs", func() bool { return h.plugin("a").State == Running })
	select {
	case <-h.Changed():
	case <-time.After(patient):
		t.Error("nobody was told that the instances have changed")
	}
	if _, err := observe(t.Context(), i); err != nil {
		t.Errorf("b is pinned and fails: %v", err)
	}
	p.Release()
	eventually(t, "b is disabled", func() bool { return h.plugin("b").State == Disabled && h.plugin("b").PID == 0 })
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b runs again", func() bool { return h.plugin("b").State == Running })
}

func TestChangedEncryptionNeedsANewProcess(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "a"))
	before := h.plugin("a")
	off := false
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"a": {AutoMTLS: &off}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process runs", func() bool {
		s := h.plugin("a")
		return s.State == Running && s.PID != before.PID
	})
	if got := config(h.observed("a")); got != "" {
		t.Errorf("config %q, want none", got)
	}
}

// A plugin whose signals follow from its configuration is described with it, and another process takes over with
// another configuration. One that cannot be described by it leaves the former one in service.
func TestSignalsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "follows", "a"), func(o *Options) { o.Settings = configs("follows", `"red"`, "a", `"red"`) })
	signal := func() eviction.Signal {
		p, i := h.pinned("follows")
		defer p.Release()
		return i.Plugin.Signals[0].Signal
	}
	if got := signal(); got != "faulty.example/red" {
		t.Errorf("signal %s, want that of its first configuration", got)
	}
	pid, other := h.plugin("follows").PID, h.plugin("a").PID
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, configs("follows", `"blue"`, "a", `"blue"`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process serves the other signal", func() bool {
		return h.plugin("follows").PID != pid && h.plugin("follows").State == Running && signal() == "faulty.example/blue"
	})
	if o := h.observed("follows"); o.State != eviction.Observed || config(o) != `"blue"` {
		t.Errorf("%+v, want an observation by the new configuration", o)
	}
	if h.plugin("a").PID != other || config(h.observed("a")) != `"blue"` {
		t.Error("a, whose signals are the same, was not just configured")
	}
	pid = h.plugin("follows").PID
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{NodeName: "n"}, configs("follows", `"blue"`)); err != nil {
		t.Fatal(err)
	}
	if got := h.plugin("follows").PID; got != pid {
		t.Errorf("pid %d, want that of the process which serves the same configuration", got)
	}
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, configs("follows", `"refuse"`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replacement is refused", func() bool { r := h.plugin("follows").Replacement; return r != nil && r.State == Refused })
	want(t, h.plugin("follows").Replacement.Reason, "config.signal: no such signal")
	if got := signal(); got != "faulty.example/blue" || h.plugin("follows").PID != pid {
		t.Errorf("signal %s of another process, want the former one", got)
	}
}

func TestCustomBeforeBuiltin(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "memory", "rival-a"))
	p := h.Pin()
	defer p.Release()
	names := func(c eviction.Capability) (got []string) {
		for _, i := range p.Providers(eviction.MemoryAvailable, c) {
			got = append(got, i.Name)
		}
		return got
	}
	if got := fmt.Sprint(names(eviction.CanRank)); got != "[rival-a memory]" {
		t.Errorf("rankers %s, want the custom one in charge", got)
	}
	if got := fmt.Sprint(names(eviction.CanObserve)); got != "[memory]" {
		t.Errorf("observers %s, want the built-in one", got)
	}
	for name, wanted := range map[string]string{"memory": "[observe measure reclaim]", "rival-a": "[rank]"} {
		if got := fmt.Sprint(h.plugin(name).Signals[0].InCharge); got != wanted {
			t.Errorf("%s is in charge of %s, want %s", name, got, wanted)
		}
	}
}

func TestTwoCustomPluginsForTheSame(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "memory", "rival-a", "rival-b"))
	if got := rankers(h.Pin()); got != "[rival-a rival-b memory]" {
		t.Errorf("rankers %s, want the first by name in charge when the start is over, and the next behind it", got)
	}
	for name, wanted := range map[string]string{"memory": "[observe measure reclaim]", "rival-a": "[rank]", "rival-b": "[]"} {
		if got := fmt.Sprint(h.plugin(name).Signals[0].InCharge); got != wanted {
			t.Errorf("%s is in charge of %s, want %s", name, got, wanted)
		}
	}
}

// Steps of reclaim depend on the configuration that the plugin has: after a reload they are those
// of the new one, and after a refused one still those of the former.
func TestTheRegistryHasTheConfigurationOfAReload(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "a"), func(o *Options) { o.Settings = configs("a", `{"n":1}`) })
	has := func(want string) {
		t.Helper()
		p, i := h.pinned("a")
		defer p.Release()
		for _, by := range p.Serving(0, i.Plugin.Observes()[0], eviction.CanObserve) {
			if by.Config != want {
				t.Errorf("the registry has %s, want %s", by.Config, want)
			}
		}
	}
	has(`{"n":1}`)
	drain(h.changed)
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, configs("a", `{"refuse":2}`)); err == nil {
		t.Error("no error of a refusal")
	}
	has(`{"n":1}`)
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, configs("a", `{"n":2}`)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.Changed():
	case <-time.After(patient):
		t.Error("the registry was not published")
	}
	has(`{"n":2}`)
}

// A plugin that is described by its configuration may refuse it then, too.
func TestASchemaMayRefuseTheSecondDescription(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "follows"), func(o *Options) { o.Settings = configs("follows", "7") })
	eventually(t, "it is refused", func() bool { return h.plugin("follows").State == Refused })
	want(t, h.plugin("follows").Reason, "7: want type string")
}

// inFile returns the settings of a plugin with its configuration in a file.
func inFile(t *testing.T, name, config string) map[string]Settings {
	t.Helper()
	document := "plugins:\n  " + name + ":\n    config:\n" + config
	asJSON, _, err := input.YAML([]byte(document), "a mapping")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, _ = bytes.CutPrefix(asJSON, []byte(`{"plugins":{"`+name+`":{"config":`))
	return map[string]Settings{name: {Config: bytes.TrimSuffix(asJSON, []byte("}}}")), Place: input.Place{
		File: "evictd.yaml", Field: "plugins." + name + ".config", Lines: input.FieldLines([]byte(document), "plugins"), Pointer: "/plugins/" + name + "/config",
	}}}
}

// What a plugin says of its configuration is a text of a stranger.
func TestProblemsOfAPluginAreBoundedAndPrintable(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "problems"), func(o *Options) { o.Settings = inFile(t, "problems", "      a: 1\n      count: 2\n") })
	eventually(t, "it is refused", func() bool { return h.plugin("problems").State == Refused })
	lines := strings.Split(h.plugin("problems").Reason, "\n")
	if len(lines) != 21 || lines[20] != "and more" {
		t.Errorf("%d lines, want 20 and the last one that there are more", len(lines))
	}
	for _, line := range lines {
		if len(line) > 1100 || strings.ContainsFunc(line, unicode.IsControl) {
			t.Errorf("%d bytes: %q", len(line), line)
		}
	}
	want(t, lines[0], "evictd.yaml:3: plugins.problems.config: refused without a text")
	if want := "evictd.yaml:3: plugins.problems.config[\"\\x1b[2J\"][0].a b: 1: want \uFFFD[31mred level=ERROR msg=fine"; lines[1] != want {
		t.Errorf("%q, want %q", lines[1], want)
	}
}

// A configuration that the plugin's schema refuses is refused with the lines of the file.
func TestARefusalNamesTheLines(t *testing.T) {
	t.Parallel()
	settings := func(config string) map[string]Settings { return inFile(t, "schema", config) }
	h := startHost(t, install(t, "schema"), func(o *Options) { o.Settings = settings("      count: 101\n      refuse: 1\n") })
	eventually(t, "it is refused", func() bool { return h.plugin("schema").State == Refused })
	wrong := "evictd.yaml:4: plugins.schema.config.count: 101: want at most 100\nevictd.yaml:5: plugins.schema.config.refuse: unknown field, want one of count"
	if got := h.plugin("schema").Reason; got != wrong {
		t.Errorf("reason %q, want %q", got, wrong)
	}
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, settings("      count: 1\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() bool { return h.plugin("schema").State == Running })
	if s := h.plugin("schema"); s.Description != "knows \x1b[31mred" || s.Vendor != "Acme" || s.Licence != "MIT" {
		t.Errorf("described as %q by %q under %q", s.Description, s.Vendor, s.Licence)
	}
	pid := h.plugin("schema").PID
	err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, settings("\n      count: many\n"))
	if got, want := fmt.Sprint(err), `plugin schema: evictd.yaml:5: plugins.schema.config.count: "many": want type integer`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := config(h.observed("schema")); got != `{"count":1}` || h.plugin("schema").PID != pid {
		t.Errorf("config %s in process %d, want the former one in process %d", got, h.plugin("schema").PID, pid)
	}
}
