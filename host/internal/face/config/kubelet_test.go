package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/policy"

	"github.com/evictd/evictd/host/internal/node/programs"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/cost"
)

const kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// writeKubelet writes a kubelet's file that goes on with content.
func writeKubelet(t testing.TB, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	testos.WriteFile(t, file, kubeletHead+content, 0o600)
	return file
}

// loadBoth reads evictd's own file and the kubelet's; either name may be empty.
func loadBoth(file, kubeletFile string) (Config, error) {
	return (&Flags{file: source{text: file}, kubeletFile: source{text: kubeletFile}}).Load()
}

// As kubeadm writes it: much that is not evictd's, zeros that mean defaults.
const kubeadm = `
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
containerRuntimeEndpoint: unix:///var/run/containerd/containerd.sock
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
failCgroupV1: true
imageMinimumGCAge: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}}}
shutdownGracePeriod: 0s
staticPodPath: /etc/kubernetes/manifests
`

func TestWhatAKubeletsFileSays(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want func(*Config)
	}{
		"nothing": {"", func(*Config) {}},
		"what kubeadm has it say": {kubeadm, func(c *Config) {
			c.CgroupDriver = "systemd"
			c.RuntimeEndpoint, c.ImageEndpoint = "unix:///var/run/containerd/containerd.sock", "unix:///var/run/containerd/containerd.sock"
			c.StaticPodPath = "/etc/kubernetes/manifests"
		}},
		"hard thresholds that replace the defaults": {`evictionHard: {memory.available: 1Gi}`, func(c *Config) {
			c.EvictionHard = map[string]string{"memory.available": "1Gi"}
		}},
		"no cgroups of pods":       {"cgroupsPerQOS: false", func(c *Config) { c.CgroupsPerQOS = false }},
		"no hard threshold at all": {`evictionHard: {}`, func(c *Config) { c.EvictionHard = map[string]string{} }},
		"a key without a value":    {"evictionHard:\nlocalStorageCapacityIsolation: null", func(*Config) {}},
		"hard thresholds merged with the defaults": {"mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi}", func(c *Config) {
			c.MergeDefaultEvictionSettings = true
			c.EvictionHard = policy.DefaultHard()
			c.EvictionHard["memory.available"] = "1Gi"
		}},
		"a merge without hard thresholds": {"mergeDefaultEvictionSettings: true", func(c *Config) { c.MergeDefaultEvictionSettings = true }},
		"soft thresholds": {"evictionSoft: {nodefs.available: 15%}\nevictionSoftGracePeriod: {nodefs.available: 2m}\nevictionMaxPodGracePeriod: 30\nevictionMinimumReclaim: {nodefs.available: 1Gi}\nevictionPressureTransitionPeriod: 30s", func(c *Config) {
			c.EvictionSoft = map[string]string{"nodefs.available": "15%"}
			c.EvictionSoftGracePeriod = map[string]string{"nodefs.available": "2m"}
			c.EvictionMaxPodGracePeriod = 30
			c.EvictionMinimumReclaim = map[string]string{"nodefs.available": "1Gi"}
			c.EvictionPressureTransitionPeriod.Duration = 30 * time.Second
		}},
		"switches": {"kernelMemcgNotification: false\nlocalStorageCapacityIsolation: false\nenforceNodeAllocatable: []", func(c *Config) {
			c.KernelMemcgNotification, c.LocalStorageCapacityIsolation = false, false
			c.EnforceNodeAllocatable = []string{}
		}},
		"gates, only those of evictions": {"featureGates: {PodLevelResources: false, GracefulNodeShutdown: true, Odd: 3}", func(c *Config) {
			c.FeatureGates = map[string]bool{"PodLevelResources": false}
		}},
		"the node": {"cgroupRoot: /kube\npodLogsDir: /logs\ncontainerRuntimeEndpoint: /run/crio/crio.sock\nimageServiceEndpoint: unix:///run/image.sock", func(c *Config) {
			c.CgroupRoot, c.PodLogsDir = "/kube", "/logs"
			c.RuntimeEndpoint, c.ImageEndpoint = "unix:///run/crio/crio.sock", "unix:///run/image.sock"
		}},
		"a cgroup named from the root":            {"cgroupRoot: kube/pods", func(c *Config) { c.CgroupRoot = "/kube/pods" }},
		"empty texts, which are none":             {"cgroupRoot: \"\"\ncgroupDriver: \"\"\npodLogsDir: \"\"\nstaticPodPath: \"\"\ncontainerRuntimeEndpoint: \"\"\nimageServiceEndpoint: \"\"", func(*Config) {}},
		"twice and odd where it is the kubelet's": {"port: 1\nport: 2\nEvictionHard: 5\nauthentication: {x: 1, x: 2}", func(*Config) {}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := loadBoth("", writeKubelet(t, c.file))
			if err != nil {
				t.Fatal(err)
			}
			want := defaults(t)
			c.want(&want)
			got.UnknownKeys = nil // see TestAKeyThatNoKubeletKnowsIsSaid
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

// The kubelet reads paths in its file from where the file is.
func TestAPathInAKubeletsFileIsRelativeToIt(t *testing.T) {
	file := writeKubelet(t, "staticPodPath: ../static\n")
	want := filepath.Join(filepath.Dir(filepath.Dir(file)), "static")
	if c, err := loadBoth("", file); err != nil || c.StaticPodPath != want {
		t.Errorf("staticPodPath is %q (%v), want %q", c.StaticPodPath, err, want)
	}
	own := write(t, "staticPodPath: static\n")
	wantLine := own + `: staticPodPath: "static": want an absolute path, or "" for none`
	if _, err := loadBoth(own, ""); err == nil || err.Error() != wantLine {
		t.Errorf("in evictd's own file: error %v, want %s", err, wantLine)
	}
	if c, err := loadBoth(write(t, `staticPodPath: ""`), file); err != nil || c.StaticPodPath != "" {
		t.Errorf("switched off by the own file: %q, %v", c.StaticPodPath, err)
	}
}

func TestAKubeletsFileAsJSON(t *testing.T) {
	file := write(t, "{\n\t\"kind\": \"KubeletConfiguration\",\n\t\"apiVersion\": \"kubelet.config.k8s.io/v1beta1\",\n\t\"evictionMaxPodGracePeriod\": 7\n}\n")
	c, err := loadBoth("", file)
	if err != nil || c.EvictionMaxPodGracePeriod != 7 {
		t.Errorf("evictionMaxPodGracePeriod %d, want 7 (%v)", c.EvictionMaxPodGracePeriod, err)
	}
}

func TestBadKubeletFiles(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"empty":          {"", []string{"is empty, want a KubeletConfiguration"}},
		"a word":         {"hello\n", []string{"is not a mapping, want a KubeletConfiguration"}},
		"not YAML":       {"a: b: c\n", []string{"yaml: mapping values are not allowed in this context"}},
		"evictd's own":   {"dryRun: true\n", []string{`apiVersion: not given, want "kubelet.config.k8s.io/v1beta1"`, `kind: not given, want "KubeletConfiguration"`}},
		"another object": {"apiVersion: v1\nkind: Pod\n", []string{`apiVersion: "v1", want "kubelet.config.k8s.io/v1beta1"`, `kind: "Pod", want "KubeletConfiguration"`}},
		"all at once": {
			kubeletHead + `evictionHard: {memory.available: 100, memory.free: 1Gi, pid.available: "-1"}
evictionSoft: [nodefs.available]
evictionSoftGracePeriod: {nodefs.available: 90}
evictionMinimumReclaim: 5
evictionMaxPodGracePeriod: 30s
evictionPressureTransitionPeriod: 5
mergeDefaultEvictionSettings: "yes"
enforceNodeAllocatable: pods
enforceNodeAllocatable: [podz]
kernelMemcgNotification: 1
localStorageCapacityIsolation: "true"
featureGates: {PodLevelResources: "no"}
containerRuntimeEndpoint: tcp://127.0.0.1:1
imageServiceEndpoint: 5
podLogsDir: logs
cgroupDriver: cgroups
address: 5
`,
			[]string{
				`enforceNodeAllocatable: given twice, again on line 11`,
				`evictionHard["memory.available"]: 100: want a quantity in quotes such as "100Mi" or a percentage such as "10%"`,
				`evictionMaxPodGracePeriod: "30s": want a whole number of seconds, at most 2147483647`,
				`evictionMinimumReclaim: 5: want quantities or percentages by signal, such as {"memory.available": "0Mi"}`,
				`evictionPressureTransitionPeriod: 5: want a duration such as "5m0s"`,
				`evictionSoft: ["nodefs.available"]: want quantities or percentages by signal, such as {"memory.available": "300Mi"}`,
				`evictionSoftGracePeriod["nodefs.available"]: 90: want a duration such as "1m30s"`,
				`featureGates["PodLevelResources"]: "no": want true or false`,
				`imageServiceEndpoint: 5: want a socket such as "unix:///run/containerd/containerd.sock"`,
				`kernelMemcgNotification: 1: want true or false`,
				`localStorageCapacityIsolation: "true": want true or false`,
				`mergeDefaultEvictionSettings: "yes": want true or false`,
				`podLogsDir: "logs": want an absolute path such as "/var/log/pods"`,
				`containerRuntimeEndpoint: "tcp://127.0.0.1:1": want a socket such as "unix:///run/containerd/containerd.sock"`,
				`cgroupDriver: "cgroups": want "cgroupfs" or "systemd"`,
				`enforceNodeAllocatable[0]: "podz": want a list of "pods", "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible", or "none" alone`,
				`evictionHard["memory.free"]: unsupported eviction signal memory.free; want one of memory.available, allocatableMemory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, containerfs.available, containerfs.inodesFree, pid.available`,
				`evictionHard["pid.available"]: "-1": eviction threshold pid.available must be positive: -1; want a quantity such as "1Gi" or a percentage such as "10%"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, c.file)
			_, err := loadBoth("", file)
			if diff := cmp.Diff(c.want, lines(err, file)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhoHasTheLastWord(t *testing.T) {
	kubelet := writeKubelet(t, `
evictionHard: {memory.available: 1Gi, nodefs.available: 1%}
evictionSoft: {memory.available: 2Gi}
evictionSoftGracePeriod: {memory.available: 1m}
evictionMaxPodGracePeriod: 10
evictionPressureTransitionPeriod: 1m
featureGates: {PodLevelResources: false, AllAlpha: true}
cgroupDriver: systemd
`)
	own := write(t, `
evictionHard: {memory.available: 3Gi}
evictionMaxPodGracePeriod: 20
evictionSoftGracePeriod: {memory.available: 2m}
featureGates: {PodLevelResources: true, AllBeta: true}
`)
	got, err := parse(t, "--kubelet-config", kubelet, "--config", own, "--eviction-max-pod-grace-period=30", "--feature-gates=AllAlpha=false")
	if err != nil {
		t.Fatal(err)
	}
	want := defaults(t)
	want.EvictionHard = map[string]string{"memory.available": "3Gi"}
	want.EvictionSoft = map[string]string{"memory.available": "2Gi"}
	want.EvictionSoftGracePeriod = map[string]string{"memory.available": "2m"}
	want.EvictionMaxPodGracePeriod = 30
	want.EvictionPressureTransitionPeriod.Duration = time.Minute
	want.FeatureGates = map[string]bool{"PodLevelResources": true, "AllBeta": true, "AllAlpha": false}
	want.CgroupDriver = "systemd"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}

	// What the own file does not name is the kubelet's, its merge with the defaults
	// included.
	got, err = loadBoth(write(t, "mergeDefaultEvictionSettings: true\n"), writeKubelet(t, "evictionHard: {memory.available: 1Gi}\n"))
	if err != nil {
		t.Fatal(err)
	}
	hard := policy.DefaultHard()
	hard["memory.available"] = "1Gi"
	if diff := cmp.Diff(hard, got.EvictionHard); diff != "" {
		t.Errorf("evictionHard merged (-want +got):\n%s", diff)
	}
}

func TestErrorsNameWhichFile(t *testing.T) {
	kubelet := writeKubelet(t, `
containerRuntimeEndpoint: ftp://x
cgroupDriver: none
evictionHard: {memory.available: abc}
evictionSoft: {memory.available: 2Gi, nodefs.available: 1Gi}
`)
	own := write(t, "pacing: fast\ncgroupDriver: fs\nevictionSoftGracePeriod: {nodefs.available: 5}\n")
	for name, c := range map[string]struct {
		args, want []string
	}{
		"both": {[]string{"--config", own, "--kubelet-config", kubelet}, []string{
			own + `: evictionSoftGracePeriod["nodefs.available"]: 5: want a duration such as "1m30s"`,
			kubelet + `: containerRuntimeEndpoint: "ftp://x": want a socket such as "unix:///run/containerd/containerd.sock"`,
			own + `: cgroupDriver: "fs": want "cgroupfs" or "systemd"`,
			own + `: pacing: "fast": want "evictd" or "kubelet"`,
			kubelet + `: evictionHard["memory.available"]: "abc": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; want a quantity such as "1Gi" or a percentage such as "10%"`,
			own + `: evictionSoftGracePeriod["memory.available"]: grace period must be specified for the soft eviction threshold memory.available; want a duration such as "1m30s"`,
		}},
		"a grace period that nobody gave is missed by who gave the threshold": {
			[]string{"--config", write(t, "{}"), "--kubelet-config", writeKubelet(t, "evictionSoft: {memory.available: 2Gi}\n")},
			[]string{`KUBELET: evictionSoftGracePeriod["memory.available"]: grace period must be specified for the soft eviction threshold memory.available; want a duration such as "1m30s"`},
		},
		"by flag, too": {
			[]string{"--config", write(t, "{}"), "--eviction-soft", "memory.available<1Gi"},
			[]string{`--eviction-soft-grace-period["memory.available"]: grace period must be specified for the soft eviction threshold memory.available; want a duration such as "1m30s"`},
		},
		"files that are not there": {[]string{"--config", "/nonexistent/a", "--kubelet-config", "/nonexistent/b"}, []string{
			"--kubelet-config: /nonexistent/b: no such file or directory",
			"--config: /nonexistent/a: no such file or directory",
		}},
		"flags of the kubelet": {[]string{"--housekeeping-interval=0s", "--node-status-update-frequency=-1s", "--experimental-kernel-memcg-notification=often", "--experimental-allocatable-ignore-eviction=2", "--feature-gates=PodLevelResources", "--local-storage-capacity-isolation=on"}, []string{
			`--kernel-memcg-notification: "often": want true or false`,
			`--experimental-allocatable-ignore-eviction: "2": want true or false`,
			`--feature-gates: "PodLevelResources": want Name=true or Name=false, comma-separated`,
			`--local-storage-capacity-isolation: "on": want true or false`,
			`--housekeeping-interval: "0s": want a duration above 0 such as "10s"`,
			`--node-status-update-frequency: "-1s": want a duration above 0 such as "10s"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, c.args...)
			got := lines(err, "")
			for i := range got {
				if name != "both" && strings.Contains(got[i], "/kubelet.yaml: ") {
					_, rest, _ := strings.Cut(got[i], "/kubelet.yaml: ")
					got[i] = "KUBELET: " + rest
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFlagsThatAreNoFields(t *testing.T) {
	c, err := parse(t, "--housekeeping-interval=1m", "--experimental-allocatable-ignore-eviction", "--enforce-node-allocatable=pods")
	if err != nil {
		t.Fatal(err)
	}
	want := defaults(t)
	want.EnforceNodeAllocatable = []string{}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// Unit files of older kubelets were refused for flags that mean nothing here, or
// are spelled otherwise today.
func TestFlagsOfOlderKubelets(t *testing.T) {
	for args, want := range map[string]bool{
		"--node-status-update-frequency=1m":                                          true,
		"--experimental-kernel-memcg-notification=false":                             false,
		"--experimental-kernel-memcg-notification":                                   true,
		"--kernel-memcg-notification=false --experimental-kernel-memcg-notification": true,
		"--experimental-kernel-memcg-notification --kernel-memcg-notification=false": false,
	} {
		c, err := parse(t, strings.Fields(args)...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		expected := defaults(t)
		expected.KernelMemcgNotification = want
		if diff := cmp.Diff(expected, c); diff != "" {
			t.Errorf("%s: config (-want +got):\n%s", args, diff)
		}
	}
}

func FuzzKubelet(f *testing.F) {
	for _, seed := range []string{
		"", kubeletHead, kubeletHead + kubeadm, kubeletHead + "evictionHard: {memory.available: 1Gi}\nevictionHard: 5\n",
		kubeletHead + "featureGates: {PodLevelResources: 0, X: []}\n", kubeletHead + "cgroupRoot: a\ncontainerRuntimeEndpoint: /x\n",
		kubeletHead + "evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 90}\n", "{\t\"kind\": 1}",
		kubeletHead + "runtimeEndpoint: 5\npodLogsDir: [a]\n", kubeletHead + "cgroupDriver: \"\\ud800\"\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, l := blank(), &layer{file: "kubelet", keys: map[string]string{}}
		var errs []error
		cost.Within(t, len(data), func() { _, errs = decodeKubelet(&c, l, data, false) })
		mergeHard(&c)
		if err := complete(&c, func() (string, error) { return "node-1", nil }); err != nil {
			t.Fatal(err)
		}
		for _, err := range problems(&c) {
			errs = append(errs, layers{l}.blame(err))
		}
		if len(errs) > 0 {
			if text := report(errs).Error(); len(text) > 100_000 || strings.ContainsAny(text, "\x00\x1b\r") {
				t.Errorf("%d bytes of error text, want few and printable ones: %.200q", len(text), text)
			}
			return
		}
		// What is accepted is a configuration that evictd's own file could give.
		asOwn, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		d := blank()
		if errs := decode(&d, &layer{keys: map[string]string{}}, asOwn); len(errs) > 0 {
			t.Fatalf("%s: %v", asOwn, errs)
		}
		if _, err := c.Thresholds(); err != nil {
			t.Fatalf("accepted, and yet: %v", err)
		}
	})
}

// A kubelet's file with imagefs.available outside of evictionHard, or EvictionHard, had no effect, and check was silent.
func TestAKeyThatNoKubeletKnowsIsSaid(t *testing.T) {
	const none = "is not used here: Kubernetes up to 1.38 has no such key; want "
	for line, want := range map[string]string{
		"imagefs.available: 5%":                     `"imagefs.available": ` + none + "it in evictionHard or evictionSoft",
		"EvictionHard: {memory.available: 1Gi}":     "EvictionHard: " + none + `"evictionHard"`,
		"evictionHards: {memory.available: 1Gi}":    "evictionHards: " + none + `"evictionHard"`,
		"eviction: {hard: {memory.available: 1Gi}}": "eviction: " + none + "a key of KubeletConfiguration",
		"MaxPods: null":                             "MaxPods: " + none + `"maxPods"`,
		"\"a\\eb\": 1":                              `"a\x1bb": ` + none + "a key of KubeletConfiguration",
		"evictionHard: {memory.available: 1Gi}":     "",
		"defaultPodSysctls: []":                     "",
	} {
		file := writeKubelet(t, line+"\n")
		dir := writeDropIns(t, map[string]string{"a.conf": line + "\n"})
		for _, c := range []struct{ file, dir, at string }{{file, "", file + ": "}, {"", dir, dir + "/a.conf: "}} {
			both := []string{c.at + want}
			if want == "" {
				both = nil
			}
			k, err := LoadKubelet(nodefs.FS{}, programs.Kubelet{File: c.file, Dir: c.dir})
			if err != nil || !slices.Equal(k.Config.UnknownKeys, both) {
				t.Errorf("%s: beside it %q (%v), want %q", line, k.Config.UnknownKeys, err, both)
			}
			fix := 0
			for _, f := range k.Beside(new(Default())) {
				if f.Signal == "unknown key" && f.Fix && f.Text == c.at+want {
					fix++
				}
			}
			if fix != len(both) {
				t.Errorf("%s: %d lines to fix, want %d", line, fix, len(both))
			}
			own, err := parse(t, "--kubelet-config", c.file, "--kubelet-config-dir", c.dir)
			if said := len(both) == 1 && slices.Contains(own.Warnings(), both[0]); err != nil || said != (want != "") {
				t.Errorf("%s: as evictd's own %q (%v), want %q", line, own.Warnings(), err, both)
			}
		}
	}
	many := ""
	for i := range 1000 {
		many += fmt.Sprintf("made-up-%d: 1\n", i)
	}
	if k, err := LoadKubelet(nodefs.FS{}, programs.Kubelet{File: writeKubelet(t, many)}); err != nil || len(k.Config.UnknownKeys) != maxUnknown {
		t.Errorf("%d keys are named of 1000 (%v), want %d", len(k.Config.UnknownKeys), err, maxUnknown)
	}
	configz := write(t, `{"kubeletconfig": {"aNewKey": 1}}`)
	if k, err := LoadKubelet(nodefs.FS{}, programs.Kubelet{File: configz}); err != nil || k.Config.UnknownKeys != nil {
		t.Errorf("%q of a kubelet's own response (%v)", k.Config.UnknownKeys, err)
	}
}
