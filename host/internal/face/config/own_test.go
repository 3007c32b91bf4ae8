package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

// Thresholds of custom signals are given wherever the kubelet's are.
func TestOwnSignalsStandInFlagsAndFilesAlike(t *testing.T) {
	const maps = `
evictionHard: {acme.example/nvme.spare: 10%}
evictionSoft: {acme.example/nvme.spare: 2k, memory.available: 1Gi}
evictionSoftGracePeriod: {acme.example/nvme.spare: 1m30s, memory.available: 1m}
evictionMinimumReclaim: {acme.example/nvme.spare: 5%}
`
	want := []string{
		"acme.example/nvme.spare<10% and 5%", "acme.example/nvme.spare<2k for 1m30s and 5%", "memory.available<1Gi for 1m0s",
	}
	for name, load := range map[string]func() (Config, error){
		"own file":     func() (Config, error) { return Load(write(t, maps)) },
		"kubelet file": func() (Config, error) { return loadBoth("", writeKubelet(t, maps)) },
		"flags": func() (Config, error) {
			return parse(t, "--eviction-hard", "acme.example/nvme.spare<10%",
				"--eviction-soft", "acme.example/nvme.spare<2k,memory.available<1Gi",
				"--eviction-soft-grace-period", "acme.example/nvme.spare=1m30s,memory.available=1m",
				"--eviction-minimum-reclaim", "acme.example/nvme.spare=5%")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load()
			if err != nil {
				t.Fatal(err)
			}
			thresholds, err := c.Thresholds()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, th := range thresholds {
				text := th.String()
				if th.MinReclaim != nil {
					text += " and " + th.MinReclaim.String()
				}
				got = append(got, text)
				if own := th.Signal == "acme.example/nvme.spare"; th.Defined() == own {
					t.Errorf("%s: defined is %v; a plugin says what a custom signal is", th, th.Defined())
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("thresholds (-want +got):\n%s", diff)
			}
			if own := c.CustomSignals(); !slices.Equal(own, []eviction.Signal{"acme.example/nvme.spare"}) {
				t.Errorf("custom signals %q", own)
			}
		})
	}
}

func TestWhatCannotBeAnOwnSignalIsReported(t *testing.T) {
	for _, name := range []string{"acme/nvme.spare", "acme.example/", "acme.example/a/b", "x.kubernetes.io/nvme", "acme.example/nvme spare"} {
		_, err := Load(write(t, "evictionHard: {"+name+": 10%}"))
		want := `evictionHard["` + name + `"]: unsupported eviction signal ` + name + `; want a custom signal with the plugin's domain`
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	_, err := Load(write(t, "evictionSoft: {acme.example/nvme.spare: 10%}"))
	if want := `evictionSoftGracePeriod["acme.example/nvme.spare"]: grace period must be specified`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("soft without a grace period: %v, want %q", err, want)
	}
}
