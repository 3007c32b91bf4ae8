package config

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func parse(t testing.TB, args ...string) (Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags := AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags.Load()
}

func TestKubeletsFlags(t *testing.T) {
	no := defaults(t)
	no.KernelMemcgNotification = false
	for name, c := range map[string]struct {
		args []string
		want func(*Config)
	}{
		"thresholds": {[]string{"--eviction-hard", "memory.available<1Gi, nodefs.available<10%,"}, func(c *Config) {
			c.EvictionHard = map[string]string{"memory.available": "1Gi", "nodefs.available": "10%"}
		}},
		"given twice adds": {[]string{"--eviction-hard=memory.available<1Gi", "--eviction-hard=nodefs.available<1%,memory.available<2Gi"}, func(c *Config) {
			c.EvictionHard = map[string]string{"memory.available": "2Gi", "nodefs.available": "1%"}
		}},
		"no threshold": {[]string{"--eviction-hard="}, func(c *Config) { c.EvictionHard = map[string]string{} }},
		"soft with all that goes with it": {[]string{
			"--eviction-soft", "memory.available<1Gi", "--eviction-soft-grace-period", "memory.available=1m30s",
			"--eviction-max-pod-grace-period", "60", "--eviction-minimum-reclaim", "memory.available=0Mi", "--eviction-pressure-transition-period", "30s",
		}, func(c *Config) {
			c.EvictionSoft = map[string]string{"memory.available": "1Gi"}
			c.EvictionSoftGracePeriod = map[string]string{"memory.available": "1m30s"}
			c.EvictionMaxPodGracePeriod = 60
			c.EvictionMinimumReclaim = map[string]string{"memory.available": "0Mi"}
			c.EvictionPressureTransitionPeriod.Duration = 30e9
		}},
		"allocatable":    {[]string{"--enforce-node-allocatable", "pods,kube-reserved"}, func(c *Config) { c.EnforceNodeAllocatable = []string{"pods", "kube-reserved"} }},
		"no allocatable": {[]string{"--enforce-node-allocatable="}, func(c *Config) { c.EnforceNodeAllocatable = []string{} }},
		"notification":   {[]string{"--kernel-memcg-notification=false"}, func(c *Config) { *c = no }},
		"bool without =": {[]string{"--dry-run"}, func(c *Config) { c.DryRun = true }},
		"feature gates": {[]string{"--feature-gates=PodLevelResources=false, AllAlpha=true,", "--feature-gates", "AllAlpha=0"}, func(c *Config) {
			c.FeatureGates = map[string]bool{"PodLevelResources": false, "AllAlpha": false}
		}},
		"no local limits": {[]string{"--local-storage-capacity-isolation=false"}, func(c *Config) { c.LocalStorageCapacityIsolation = false }},
		"evictd's own":    {[]string{"--node-name", "node-7", "--log-level", "warn"}, func(c *Config) { c.NodeName, c.LogLevel = "node-7", "warn" }},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults(t)
			c.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFlagReplacesWhatTheFileMerged(t *testing.T) {
	file := write(t, "mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi}\n")
	c, err := parse(t, "--config", file, "--eviction-hard", "nodefs.available<1Gi")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"nodefs.available": "1Gi"}, c.EvictionHard); diff != "" {
		t.Errorf("evictionHard (-want +got):\n%s", diff)
	}
}

func TestErrorsNameWhereTheValueCameFrom(t *testing.T) {
	file := write(t, "pacing: 5\nrunDir: run\nlogLevel: loud\nevictionSoft: {memory.available: 1Gi}\n")
	_, err := parse(t, "--config", file, "--log-level=trace", "--eviction-hard=memory.available<abc,x<1",
		"--eviction-soft-grace-period=memory.available:1m", "--eviction-pressure-transition-period=5")
	want := []string{
		`--eviction-soft-grace-period: "memory.available:1m": want signal=value, comma-separated`,
		`--eviction-pressure-transition-period: "5": want a duration such as "5m0s"`,
		file + `: pacing: 5: want "evictd" or "kubelet"`,
		file + `: runDir: "run": want an absolute path such as "/run/evictd"`,
		`--log-level: "trace": want "debug", "info", "warn" or "error"`,
		`--eviction-hard["memory.available"]: "abc": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; want a quantity such as "1Gi" or a percentage such as "10%"`,
		`--eviction-hard["x"]: unsupported eviction signal x; want one of memory.available, allocatableMemory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, containerfs.available, containerfs.inodesFree, pid.available`,
	}
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// samples are values of each kind, as a file and as a flag says them.
var samples = map[string][2]string{
	"name":         {"node-7", "node-7"},
	"period":       {"1m", "1m0s"},
	"seconds":      {"30", "30"},
	"hard":         {"{memory.available: 1Gi, pid.available: 5%}", "memory.available<1Gi,pid.available<5%"},
	"graces":       {"{memory.available: 90s}", "memory.available=90s"},
	"reclaim":      {`{memory.available: "0"}`, "memory.available=0"},
	"allocatables": {"[none]", "none"},
	"gates":        {"{PodLevelResources: false, AllAlpha: true}", "PodLevelResources=false,AllAlpha=true"},
}

// Every field can be set by file or by flag, with the same outcome whichever is
// set how.
func TestFilesAndFlagsSayTheSame(t *testing.T) {
	type reported struct{ field, yaml, flag string }
	var all []reported
	table := reflect.TypeFor[Config]()
	for _, f := range tables[table] {
		sample, ok := samples[table.Field(f.index).Tag.Get("is")]
		switch texts := strings.Fields(table.Field(f.index).Tag.Get("oneof")); {
		case f.usage == "" || f.name == "evictionSoft": // which needs another
			continue
		case len(texts) > 0:
			sample = [2]string{strconv.Quote(texts[len(texts)-1]), texts[len(texts)-1]}
		case f.typ.Kind() == reflect.Bool:
			other := strconv.FormatBool(f.def != "true")
			sample = [2]string{other, other}
		case !ok:
			t.Errorf("%s: no sample of its kind", f.name)
		}
		all = append(all, reported{f.name, sample[0], sample[1]})
	}
	if len(all) < 12 {
		t.Errorf("%d fields are told, want 12 or more", len(all))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		chosen := slices.Clone(all)
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:random.IntN(len(chosen)+1)]

		var file, some strings.Builder
		file.WriteString("{}\n")
		some.WriteString("{}\n")
		if len(chosen) > 0 {
			file.Reset()
		}
		var flags, rest []string
		for _, c := range chosen {
			fmt.Fprintf(&file, "%s: %s\n", c.field, c.yaml)
			flag := "--" + kebab(c.field) + "=" + c.flag
			flags = append(flags, flag)
			if random.IntN(2) == 0 {
				rest = append(rest, flag)
				continue
			}
			if some.String() == "{}\n" {
				some.Reset()
			}
			fmt.Fprintf(&some, "%s: %s\n", c.field, c.yaml)
		}
		byFile, err := parse(t, "--config", write(t, file.String()))
		if err != nil {
			t.Fatalf("%s: %v", file.String(), err)
		}
		byFlags, err := parse(t, flags...)
		if err != nil {
			t.Fatalf("%q: %v", flags, err)
		}
		byBoth, err := parse(t, append(rest, "--config", write(t, some.String()))...)
		if err != nil {
			t.Fatalf("%s%q: %v", some.String(), rest, err)
		}
		if diff := cmp.Diff(byFile, byFlags); diff != "" {
			t.Fatalf("%q against the same as a file (-file +flags):\n%s", flags, diff)
		}
		if diff := cmp.Diff(byFile, byBoth); diff != "" {
			t.Fatalf("%s and %q against all as a file (-file +both):\n%s", some.String(), rest, diff)
		}
	}
}

func TestReload(t *testing.T) {
	a := defaults(t)
	b := a
	b.LogLevel, b.DryRun, b.EvictionHard = "debug", true, nil
	if err := CheckReload(a, b); err != nil {
		t.Errorf("reload of what may change: %v", err)
	}
	b.PluginDir, b.MetricsBindAddress, b.RunDir = "/p", "127.0.0.1:1", "/r"
	if diff := cmp.Diff([]string{"pluginDir", "runDir", "metricsBindAddress"}, changed(a, b)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	const want = "pluginDir, runDir, metricsBindAddress changed, which needs a restart; nothing was applied"
	if err := CheckReload(a, b); err == nil || err.Error() != want {
		t.Errorf("CheckReload: %v, want %s", err, want)
	}
}

func FuzzPairs(f *testing.F) {
	for _, seed := range []string{"", ",", "<", "memory.available<1Gi", " a < b ,c<d<e,a<f", "a=b"} {
		f.Add(seed)
	}
	hard, _ := whole.below("evictionHard")
	fuzzMapping[string](f, hard)
}

func FuzzGates(f *testing.F) {
	for _, seed := range []string{"", ",", "=", "A=true", " A = false ,B=1,A=t", "A=", "A"} {
		f.Add(seed)
	}
	gates, _ := whole.below("featureGates")
	fuzzMapping[bool](f, gates)
}

func fuzzMapping[V comparable](f *testing.F, of field) {
	f.Fuzz(func(t *testing.T, s string) {
		var m, again map[string]V
		if want, ok := of.parse(reflect.ValueOf(&m).Elem(), s); !ok {
			if want == "" || m != nil {
				t.Errorf("parse(%q) = %v, %q: want a reason and nothing else", s, m, want)
			}
			return
		}
		// What help would print reads as the same.
		if _, ok := of.parse(reflect.ValueOf(&again).Elem(), pairs(m, of.separator)); !ok || !cmp.Equal(m, again) {
			t.Errorf("parse(%q) = %v, written and parsed again %v", s, m, again)
		}
	})
}

// An error in a file is reported beside the error in the flag that would override it.
func TestARefusedFlagHidesNothing(t *testing.T) {
	file := write(t, "evictionHard: {memory.available: abc}\n")
	_, err := parse(t, "--config", file, "--eviction-hard", "memory.available")
	if got := lines(err, file); len(got) != 2 || !strings.HasPrefix(got[0], "--eviction-hard: ") || !strings.HasPrefix(got[1], `evictionHard["memory.available"]: "abc": `) {
		t.Errorf("errors %q, want one of the flag and one of the file", got)
	}
}

// pairs writes a mapping as addPairs reads it.
func pairs[V any](m map[string]V, separator string) string {
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprint(k, separator, m[k]))
	}
	return strings.Join(parts, ",")
}
