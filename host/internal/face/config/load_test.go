package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/eviction"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/cost"
)

func write(t testing.TB, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "evictd.yaml")
	testos.WriteFile(t, file, content, 0o600)
	return file
}

// defaults returns the configuration without a file and flags.
func defaults(t testing.TB) Config {
	t.Helper()
	c, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestToObserveIsADryRun(t *testing.T) {
	for text, dry := range map[string]bool{"observe: true\ndryRun: false\n": true, "observe: false\ndryRun: true\n": true, "observe: false\n": false} {
		if c, err := Load(write(t, text)); err != nil || c.DryRun != dry {
			t.Errorf("%q: dryRun %t, %v; want %t", text, c.DryRun, err, dry)
		}
	}
}

func TestDefaults(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	// What is not computed is the table's, which the document repeats.
	want := blank()
	want.NodeName = strings.ToLower(host)
	want.ImageEndpoint = "unix:///run/containerd/containerd.sock"
	want.EvictionHard = policy.DefaultHard()
	if want.RunDir != "/run/evictd" || want.MonitoringInterval.Duration != 10*time.Second || !want.KernelMemcgNotification ||
		want.Summary.Timeout.Duration != 800*time.Millisecond || !slices.Equal(want.EnforceNodeAllocatable, []string{"pods"}) {
		t.Errorf("of each type one default is not what the table says: %+v", want)
	}
	if diff := cmp.Diff(want, defaults(t)); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	want.StateDir = "" // is the program's to say
	if diff := cmp.Diff(want, Default()); diff != "" {
		t.Errorf("Default() (-want +got):\n%s", diff)
	}
}

func TestWhatAFileSays(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want func(*Config)
	}{
		"nothing":                         {`{}`, func(*Config) {}},
		"a key without a value is no key": {"evictionHard:\ndryRun: null", func(*Config) {}},
		"hard thresholds replace the defaults": {`evictionHard: {memory.available: 1Gi}`, func(c *Config) {
			c.EvictionHard = map[string]string{"memory.available": "1Gi"}
		}},
		"no hard threshold at all": {`evictionHard: {}`, func(c *Config) { c.EvictionHard = map[string]string{} }},
		"hard thresholds merged with the defaults": {"mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi}", func(c *Config) {
			c.MergeDefaultEvictionSettings = true
			c.EvictionHard = policy.DefaultHard()
			c.EvictionHard["memory.available"] = "1Gi"
		}},
		"a transition period of 0 is the default": {`evictionPressureTransitionPeriod: 0s`, func(*Config) {}},
		"images come from the runtime's socket": {`runtimeEndpoint: unix:///run/x.sock`, func(c *Config) {
			c.RuntimeEndpoint, c.ImageEndpoint = "unix:///run/x.sock", "unix:///run/x.sock"
		}},
		"allocatable is not enforced": {`enforceNodeAllocatable: []`, func(c *Config) { c.EnforceNodeAllocatable = []string{} }},
		"paths are cleaned":           {`pluginDir: /a//b/../c/`, func(c *Config) { c.PluginDir = "/a/c" }},
		"a threshold of a custom signal": {`evictionHard: {acme.example/nvme.spare: 5%}`, func(c *Config) {
			c.EvictionHard = map[string]string{"acme.example/nvme.spare": "5%"}
		}},
		"assignments that are none of one filesystem in some layout": {"assign:\n  nodefs.available: {rank: a}\n  imagefs.available: {rank: b}\n", func(c *Config) {
			c.Assign = map[eviction.Signal]map[string]string{"nodefs.available": {"rank": "a"}, "imagefs.available": {"rank": "b"}}
		}},
		"assignments": {"assign:\n  memory.available: {rank: oldest, observe: memory}\n  acme.example/nvme.spare: {watch: nvme}\n", func(c *Config) {
			c.Assign = map[eviction.Signal]map[string]string{"memory.available": {"rank": "oldest", "observe": "memory"}, "acme.example/nvme.spare": {"watch": "nvme"}}
		}},
		"plugin settings": {"plugins:\n  memory:\n  oldest: {config: {labels: [a], count: 9007199254740993}, autoMTLS: false}\n  pid: {disabled: true, config: null}\n", func(c *Config) {
			no := false
			c.Plugins = map[string]Plugin{
				"memory": {},
				"oldest": {Config: json.RawMessage(`{"count":9007199254740993,"labels":["a"]}`), AutoMTLS: &no},
				"pid":    {Disabled: true},
			}
		}},
		"a merge key": {"plugins:\n  a: &x {disabled: true}\n  b:\n    <<: *x\n", func(c *Config) {
			c.Plugins = map[string]Plugin{"a": {Disabled: true}, "b": {Disabled: true}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Load(write(t, c.file))
			if err != nil {
				t.Fatal(err)
			}
			want := defaults(t)
			c.want(&want)
			for name, p := range got.Plugins {
				p.Place = input.Place{} // see TestPluginsHaveTheirPlace
				got.Plugins[name] = p
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

// A ConfigMap has the text of --config, over which the flags are as well.
func TestATextInPlaceOfTheFile(t *testing.T) {
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags := AddFlags(fs)
	if err := fs.Parse([]string{"--config", write(t, "logLevel: warn"), "--node-name=a"}); err != nil {
		t.Fatal(err)
	}
	c, err := flags.LoadDaemonText("ConfigMap ns/name", "logLevel: error\nnodeName: b")
	if err != nil || c.LogLevel != "error" || c.NodeName != "a" {
		t.Errorf("logLevel %q, nodeName %q, %v, want error and a", c.LogLevel, c.NodeName, err)
	}
	for text, want := range map[string]string{
		"loglevel: error": `ConfigMap ns/name: loglevel: unknown field, want "logLevel"`,
		"":                "ConfigMap ns/name: ",
	} {
		if _, err := flags.LoadDaemonText("ConfigMap ns/name", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if c, err := flags.LoadDaemon(); err != nil || c.LogLevel != "warn" {
		t.Errorf("logLevel %q, %v, want that of the file again", c.LogLevel, err)
	}
}

func TestThresholds(t *testing.T) {
	c, err := Load(write(t, `
evictionHard: {memory.available: 1Gi, acme.example/nvme.spare: 5%}
evictionSoft: {memory.available: 25%}
evictionSoftGracePeriod: {memory.available: 1m30s}
`))
	if err != nil {
		t.Fatal(err)
	}
	thresholds, err := c.Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, th := range thresholds {
		got = append(got, th.String())
	}
	want := []string{
		"acme.example/nvme.spare<5%", "memory.available<1Gi", "memory.available<25% for 1m30s", "allocatableMemory.available<1Gi",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("thresholds (-want +got):\n%s", diff)
	}
}

func TestWarnings(t *testing.T) {
	c, err := Load(write(t, `
evictionHard: {}
evictionSoftGracePeriod: {memory.available: 1m}
evictionMinimumReclaim: {memory.available: 1Mi}
evictionMaxPodGracePeriod: -1
assign: {memory.available: {rank: oldest, observe: memory}}
plugins: {oldest: {disabled: true}}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Warnings()
	for i, want := range []string{
		`evictionSoftGracePeriod["memory.available"] has no effect`, `evictionMinimumReclaim["memory.available"] has no effect`,
		"no eviction threshold is in force", "evictionMaxPodGracePeriod is -1",
		`assign["memory.available"].rank has no effect: plugins["oldest"] is disabled`,
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("Warnings()[%d] of %q, want prefix %q", i, got, want)
		}
	}
	soft, err := Load(write(t, "evictionSoft: {memory.available: 2Gi}\nevictionSoftGracePeriod: {memory.available: 1m}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if w := soft.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "evictionMaxPodGracePeriod is 0: pods under soft thresholds are killed within 1 s") {
		t.Errorf("a soft threshold without a grace period for pods warns: %q", w)
	}
	const grace = "evictionMaxPodGracePeriod is 0"
	for name, c := range map[string]struct {
		config string
		want   []string
	}{
		"a soft threshold below the hard one": {
			"evictionHard: {memory.available: 2Gi}\nevictionSoft: {memory.available: 1.5Gi}\nevictionSoftGracePeriod: {memory.available: 1m}",
			[]string{`evictionSoft["memory.available"] has no effect: 1536Mi is not above 2Gi of evictionHard`, grace},
		},
		"the same amount in both": {
			"evictionHard: {memory.available: 2Gi}\nevictionSoft: {memory.available: 2048Mi}\nevictionSoftGracePeriod: {memory.available: 1m}",
			[]string{`evictionSoft["memory.available"] has no effect: 2Gi is not above 2Gi of evictionHard`, grace},
		},
		"percentages": {
			"evictionHard: {memory.available: 1Gi, nodefs.available: 15%}\nevictionSoft: {nodefs.available: 10%}\nevictionSoftGracePeriod: {nodefs.available: 1m}",
			[]string{`evictionSoft["nodefs.available"] has no effect: 10% is not above 15% of evictionHard`, grace},
		},
		"what cannot be compared": {
			"evictionHard: {memory.available: 10%}\nevictionSoft: {memory.available: 1Ki}\nevictionSoftGracePeriod: {memory.available: 1m}",
			[]string{grace},
		},
		"no memory, as k3s has it": {
			"evictionHard: {imagefs.available: 5%, nodefs.available: 5%}", []string{"no threshold of memory.available is in force: no pod is evicted"},
		},
		"memory under a soft threshold alone": {
			"evictionHard: {nodefs.available: 5%}\nevictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}", []string{grace},
		},
		"no cgroups of pods":                   {"cgroupsPerQOS: false", []string{"cgroupsPerQOS is false: pods have no cgroups of their own"}},
		"no cgroups of pods and none are read": {"cgroupsPerQOS: false\nsource: summary\nsummary: {kubeconfig: /k}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c1, err := Load(write(t, c.config))
			if err != nil {
				t.Fatal(err)
			}
			if got := c1.Warnings(); !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("Warnings() = %q, want prefixes %q", got, c.want)
			}
		})
	}
	d := defaults(t)
	if w := d.Warnings(); len(w) != 0 {
		t.Errorf("the defaults warn: %q", w)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "---\n", "a: 1\n---\nb: 2\n", "evictionHard: {memory.available: 1Gi}", "mode: cri\nmode: cri\n",
		"plugins: {memory: {config: {a: .inf}}}", "plugins: &a {x: {config: [1, 2]}}\nnodeName: *a\n", "? [a]\n: b\n", "plugins: {a: {memoryLimit: \"1E-99999999\", cpuLimit: 1e99999999}}", "plugins: {a: &a {config: &b [c, c]}, d: {config: [*a, *b, {<<: *a}]}}", "1: 2\n\"1\": 3\n",
		"evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 90}\n", "\xff", "[]", "null", "dryRun: yes\n",
		"evictionHard: {acme.example/nvme.spare: 10%}\nrequiredSignals: [acme.example/nvme.spare]\n", "evictionHard: {acme.example/a/b: 1, acme/b: 1}",
		"evictionSoft: {memory.available: null}", "a: &a [*a]\n", "<<: {mode: cri}\n", "evictionPressureTransitionPeriod: -1s\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, l := blank(), &layer{keys: map[string]string{}}
		var errs []error
		cost.Within(t, len(data), func() { errs = decode(&c, l, data) })
		mergeHard(&c)
		if err := complete(&c, func() (string, error) { return "node-1", nil }); err != nil {
			t.Fatal(err)
		}
		errs = append(errs, problems(&c)...)
		if len(errs) > 0 {
			if text := report(errs).Error(); len(text) > 100_000 || strings.ContainsAny(text, "\x00\x1b\r") {
				t.Errorf("%d bytes of error text, want few and printable ones: %.200q", len(text), text)
			}
			return
		}
		// What is accepted says the same again when written and read.
		if _, err := c.Thresholds(); err != nil {
			t.Fatalf("accepted, and yet: %v", err)
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		d := blank()
		if errs := decode(&d, &layer{keys: map[string]string{}}, again); len(errs) > 0 {
			t.Fatalf("%s: %v", again, errs)
		}
		mergeHard(&d)
		if err := complete(&d, nil); err != nil {
			t.Fatal(err)
		}
		third, err := json.Marshal(d)
		if err != nil || string(third) != string(again) {
			t.Errorf("read again it says\n%s, want\n%s (%v)", third, again, err)
		}
	})
}

func TestPluginsHaveTheirPlace(t *testing.T) {
	file := write(t, "dryRun: true\nplugins:\n  acme.d:\n    config:\n      a:\n      - 1\n")
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	at := c.Plugins["acme.d"].Place
	if got, want := at.Error([]string{"a", "0"}, "wrong").Error(), file+`:6: plugins["acme.d"].config.a[0]: wrong`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := at.Error([]string{"b"}, "wrong").Error(), file+`:4: plugins["acme.d"].config.b: wrong`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
