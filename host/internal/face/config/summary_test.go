package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/shared/eviction"
)

func TestWhereTheSummaryIs(t *testing.T) {
	c, err := Load(write(t, `
source: summary
summary:
  kubeconfig: /etc/evictd/kubelet.kubeconfig
  timeout: 500ms
  layout: imagefs
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Summary{
		Kubeconfig: "/etc/evictd/kubelet.kubeconfig", Timeout: metav1.Duration{Duration: 500 * time.Millisecond}, Layout: "imagefs",
	}
	if diff := cmp.Diff(want, c.Summary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if errs := daemonProblems(&c); len(errs) > 0 {
		t.Errorf("a daemon: %v", errs)
	}
}

func TestBadSummaries(t *testing.T) {
	const layouts = `want "shared", "imagefs" or "containerfs"`
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"no mapping":                       {"summary: https://127.0.0.1:10250\n", []string{`summary: "https://127.0.0.1:10250": want a mapping such as {"kubeconfig": "/etc/evictd/kubelet.kubeconfig", "layout": "shared"}`}},
		"wrong case":                       {"summary: {Kubeconfig: x}\n", []string{`summary.Kubeconfig: unknown field, want "kubeconfig"`}},
		"another field":                    {"summary: {password: x}\n", []string{`summary.password: unknown field, want one of kubeconfig, layout, timeout`}},
		"twice":                            {"summary:\n  layout: shared\n  layout: imagefs\n", []string{`summary.layout: given twice, again on line 3`}},
		"a source":                         {"source: kubelet\n", []string{`source: "kubelet": want "native" or "summary"`}},
		"how often":                        {"layout: shared\n", []string{`layout: "shared": want "recheck" or "kubelet"`}},
		"a timeout of a whole observation": {"summary: {timeout: 1s}\n", []string{`summary.timeout: "1s": want a duration below 1s such as "800ms"`}},
		"a timeout of -1s, told once":      {"summary: {kubeconfig: /k, timeout: -1s}\n", []string{`summary.timeout: "-1s": want a duration below 1s such as "800ms"`}},
		"wrong types": {"summary: {timeout: 5, kubeconfig: []}\n", []string{
			`summary.kubeconfig: []: want the absolute path of a kubeconfig whose server is the kubelet`,
			`summary.timeout: 5: want a duration below 1s such as "800ms"`,
		}},
		"all at once": {"summary: {kubeconfig: k, layout: both}\n", []string{
			`summary.kubeconfig: "k": want the absolute path of a kubeconfig whose server is the kubelet`,
			`summary.layout: "both": ` + layouts,
		}},
		"what is in the kubeconfig now": {"summary: {address: a, tokenFile: /t, certFile: /c, keyFile: /k, caFile: /a, serverName: s, insecureSkipVerify: true}\n", []string{
			`summary.address: was removed, use server in the file of summary.kubeconfig`,
			`summary.caFile: was removed, use certificate-authority in the file of summary.kubeconfig`,
			`summary.certFile: was removed, use client-certificate in the file of summary.kubeconfig`,
			`summary.insecureSkipVerify: was removed, use insecure-skip-tls-verify in the file of summary.kubeconfig`,
			`summary.keyFile: was removed, use client-key in the file of summary.kubeconfig`,
			`summary.serverName: was removed, use tls-server-name in the file of summary.kubeconfig`,
			`summary.tokenFile: was removed, use tokenFile in the file of summary.kubeconfig`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, c.file)
			_, err := Load(file)
			if diff := cmp.Diff(c.want, lines(err, file)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// An embedding program brings its own summary and knows the layout; the daemon
// needs them configured.
func TestWhatOnlyADaemonNeeds(t *testing.T) {
	const (
		soft    = "source: summary\nsummary: {kubeconfig: /k}\nevictionHard: {}\nevictionSoft: {nodefs.inodesFree: 5%}\nevictionSoftGracePeriod: {nodefs.inodesFree: 1m}\n"
		address = `summary.kubeconfig: not given, want the absolute path of a kubeconfig whose server is the kubelet, as signals are assigned to the kubelet's summary`
		layout  = `summary.layout: not given, want "shared", "imagefs" or "containerfs", as there is a threshold of `
	)
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"native figures": {"{}", nil},
		"metrics for other machines without an API server": {"metricsBindAddress: 0.0.0.0:10269\n", []string{
			`metricsBindAddress: "0.0.0.0:10269": want an address of the loopback device, as mode "cri" has no API server to ask who may read it`,
		}},
		"metrics for other machines":       {"metricsBindAddress: \":10269\"\nmode: kubernetes\n", nil},
		"the loopback device of version 6": {"metricsBindAddress: \"[::1]:10269\"\n", nil},
		"a certificate without key":        {"tlsCertFile: /tls.crt\n", []string{`tlsCertFile and tlsPrivateKeyFile: want both or neither`}},
		"a key without certificate":        {"tlsPrivateKeyFile: /tls.key\n", []string{`tlsCertFile and tlsPrivateKeyFile: want both or neither`}},
		"nothing":                          {"source: summary\n", []string{address, layout + "imagefs.available and a summary does not tell"}},
		"the layout":                       {"source: summary\nsummary: {layout: shared}\n", []string{address}},
		"no disk signal":                   {"source: summary\nevictionHard: {memory.available: 1Gi}\n", []string{address}},
		"a disk signal that is off":        {"source: summary\nsummary: {kubeconfig: /k}\nevictionHard: {nodefs.available: 0%}\n", nil},
		"a soft disk signal":               {soft, []string{layout + "nodefs.inodesFree and a summary does not tell"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, c.file)
			cfg, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, lines(errors.Join(daemonProblems(&cfg)...), "")); diff != "" {
				t.Errorf("daemonProblems (-want +got):\n%s", diff)
			}
			_, err = (&Flags{file: source{text: file}}).LoadDaemon()
			if diff := cmp.Diff(c.want, lines(err, file)); diff != "" {
				t.Errorf("as a daemon loads it (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFeature(t *testing.T) {
	for name, c := range map[string]struct {
		gates map[string]bool
		want  bool
	}{
		"on by default":            {nil, true},
		"off":                      {map[string]bool{"PodLevelResources": false}, false},
		"off with all of its kind": {map[string]bool{"AllBeta": false}, false},
		"named, which beats all":   {map[string]bool{"AllBeta": false, "PodLevelResources": true}, true},
		"alpha is another kind":    {map[string]bool{"AllAlpha": false}, true},
	} {
		c2 := Config{FeatureGates: c.gates}
		if got := c2.Feature(FeaturePodLevelResources); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

func TestFeaturesByVersion(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		gates   map[string]bool
		want    []bool // FeatureFixQOSClass, FeatureMemoryVolumes
	}{
		"before they came":                       {"1.36", map[string]bool{FeatureFixQOSClass: true, FeatureMemoryVolumes: true}, []bool{false, false}},
		"beta is on, alpha off":                  {Kubernetes137, nil, []bool{true, false}},
		"as named":                               {Kubernetes137, map[string]bool{FeatureFixQOSClass: false, FeatureMemoryVolumes: true}, []bool{false, true}},
		"all of a kind":                          {Kubernetes137, map[string]bool{"AllBeta": false, "AllAlpha": true}, []bool{false, true}},
		"named ones, which go before all others": {Kubernetes137, map[string]bool{"AllAlpha": true, FeatureMemoryVolumes: false}, []bool{true, false}},
	} {
		config := Config{Compatibility: c.version, FeatureGates: c.gates}
		if got := []bool{config.Feature(FeatureFixQOSClass), config.Feature(FeatureMemoryVolumes)}; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for kubelet, want := range map[string]string{
		"": Kubernetes138, "v1.36.3": "1.36", "v1.35.1-gke.1": Kubernetes135, "v1.30.0+k3s1": Kubernetes135, "v1.37.9": Kubernetes137, "v1.38.0-beta.0": Kubernetes138, "v1.38.0": Kubernetes138, "v2.0.0": Kubernetes138, "dev": Kubernetes138,
	} {
		config := Config{Compatibility: CompatibilityAuto, OfKubelet: OfKubelet{KubeletVersion: kubelet}}
		if got := config.Kubernetes(); got != want || config.Since(Kubernetes137) != (want >= Kubernetes137) {
			t.Errorf("kubelet %q: %s, want %s", kubelet, got, want)
		}
	}
	old := Config{Compatibility: "1.36", FeatureGates: map[string]bool{FeatureFixQOSClass: true}}
	if got := featureWarnings(&old); len(got) != 1 || !strings.Contains(got[0], "it came with Kubernetes 1.37, compatibility is 1.36") {
		t.Errorf("warnings %q", got)
	}
}

func TestWarningsOfGatesAndSummary(t *testing.T) {
	c, err := Load(write(t, `
featureGates: {PodLevelResources: false, KubeletSeparateDiskGC: false, TaintTolerationComparisonOperators: true, PodLevelResource: true}
summary: {kubeconfig: /k}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`featureGates["PodLevelResource"] has no effect: no gate of this name changes what is evicted`,
		`featureGates["KubeletSeparateDiskGC"] is off and has no effect: the filesystems of images and containers are always told apart`,
		`summary.kubeconfig has no effect: source is "native", and no signal is assigned to "summary"`,
	}
	if diff := cmp.Diff(want, c.Warnings()); diff != "" {
		t.Errorf("Warnings (-want +got):\n%s", diff)
	}
}

// source: summary is the short form of assigning the kubelet's signals.
func TestASourceAssignsTheKubeletsSignals(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"source: summary\nassign: {nodefs.available: {measure: acme}, acme.example/x: {observe: acme}}":     `"summary" "summary"; "summary" "acme"; "acme" ""`,
		"assign: {nodefs.available: {observe: summary, measure: summary}, acme.example/x: {measure: acme}}": `"" ""; "summary" "summary"; "" "acme"`,
	} {
		c, err := Load(write(t, text+"\nsummary: {kubeconfig: /k, layout: shared}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if (want != "") != c.UsesSummary() {
			t.Errorf("%q: uses the summary: %v", text, c.UsesSummary())
		}
		var got []string
		for _, s := range []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable, "acme.example/x"} {
			of := c.Assignment()[s]
			got = append(got, fmt.Sprintf("%q %q", of["observe"], of["measure"]))
			if of["rank"]+of["watch"]+of["reclaim"] != "" {
				t.Errorf("%q: %s: %v", text, s, of)
			}
		}
		if text := strings.Join(got, "; "); want != "" && text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

func TestAPeriodicGCWithoutAnObserverIsWarnedOf(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "assign: {nodefs.available: {observe: disk}}": false, "assign: {nodefs.available: {measure: acme}}": false,
		"assign: {nodefs.available: {observe: acme}}": true, "source: summary\nsummary: {kubeconfig: /k, layout: shared}": true,
	} {
		c, err := Load(write(t, "plugins: {disk: {config: {periodicImageGC: true}}}\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(c.Warnings(), "\n"), "periodicImageGC has no effect"); got != want {
			t.Errorf("%q: warns %v, want %v", text, got, want)
		}
	}
}

func TestASummaryDoesNotChangeWithoutARestart(t *testing.T) {
	a, b := Default(), Default()
	b.FeatureGates = map[string]bool{}
	if got := changed(a, b); len(got) != 0 {
		t.Errorf("changed = %q with the same said in other words, want none", got)
	}
	b.Layout, b.Source, b.Summary.Kubeconfig = LayoutKubelet, SourceSummary, "/k"
	b.FeatureGates = map[string]bool{"PodLevelResources": false}
	b.LocalStorageCapacityIsolation = false
	if diff := cmp.Diff([]string{"layout", "source", "summary", "featureGates"}, changed(a, b)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// An assignment to the summary by a reload had no effect: its plugin was not there.
func TestAFirstAssignmentToTheSummaryNeedsARestart(t *testing.T) {
	none, one, two := Default(), Default(), Default()
	one.Assign = map[eviction.Signal]map[string]string{eviction.MemoryAvailable: {"observe": SourceSummary}}
	two.Assign = map[eviction.Signal]map[string]string{eviction.PIDAvailable: {"measure": SourceSummary}}
	for name, c := range map[string]struct {
		from, to Config
		refused  bool
	}{"the first": {none, one, true}, "another": {one, two, false}, "none any more": {one, none, false}} {
		if err := CheckReload(c.from, c.to); (err != nil) != c.refused {
			t.Errorf("%s: %v, want it refused: %v", name, err, c.refused)
		}
	}
}
