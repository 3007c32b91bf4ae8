package config

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/testos"
)

// lines returns the lines of err without the name of the file.
func lines(err error, file string) []string {
	if err == nil {
		return nil
	}
	all := strings.Split(err.Error(), "\n")
	for i, l := range all {
		all[i] = strings.TrimPrefix(l, file+": ")
	}
	return all
}

func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"empty":          {"", []string{"is empty, want fields and values such as \"dryRun: true\", or {} for all defaults"}},
		"only a comment": {"# nothing\n", []string{"is empty, want fields and values such as \"dryRun: true\", or {} for all defaults"}},
		"two documents":  {"mode: cri\n---\nmode: cri\n", []string{"has more than one YAML document, want one"}},
		// All after the first field was passed over in silence.
		"a field further left": {" mode: cri\ndryRun: true\n", []string{"yaml: line 1: did not find expected <document start>"}},
		"a word":               {"hello\n", []string{"is not a mapping, want fields and values such as \"dryRun: true\", or {} for all defaults"}},
		"nothing at all":       {"null\n", []string{"is not a mapping, want fields and values such as \"dryRun: true\", or {} for all defaults"}},
		"a list":               {"- mode\n", []string{"is not a mapping, want fields and values such as \"dryRun: true\", or {} for all defaults"}},
		"not YAML":             {"mode: cri\n\tx: [\n", []string{"yaml: line 2: found a tab character that violates indentation"}},
		"a slip":               {"evictionHrad: {}\n", []string{`evictionHrad: unknown field, want "evictionHard"`}},
		"wrong case":           {"DryRun: true\n", []string{`DryRun: unknown field, want "dryRun"`}},
		"in a plugin":          {"plugins: {memory: {automtls: true}}\n", []string{`plugins["memory"].automtls: unknown field, want "autoMTLS"`}},
		"far in a plugin":      {"plugins: {memory: {nice: 1}}\n", []string{`plugins["memory"].nice: unknown field, want one of autoMTLS, capabilities, config, cpuLimit, disabled, group, memoryLimit, required, sha256, user, writablePaths`}},
		"twice":                {"mode: cri\nevictionHard:\n  memory.available: 1Gi\n  memory.available: 2Gi\nmode: cri\n", []string{`evictionHard["memory.available"]: given twice, again on line 4`, `mode: given twice, again on line 5`}},
		"twice in a plugin":    {"plugins:\n  a:\n    config: {x: 1, x: 2}\n", []string{`plugins.a.config.x: given twice, again on line 3`}},
		"twice, once as a number": {"plugins: {a: {config: {1: a, \"1\": b}}}", []string{
			`plugins.a.config.1: given twice, again on line 1`,
		}},
		"a quantity": {"evictionHard: {memory.available: abc}\n", []string{
			`evictionHard["memory.available"]: "abc": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; want a quantity such as "1Gi" or a percentage such as "10%"`,
		}},
		"a number": {"evictionHard: {pid.available: 1000}\n", []string{
			`evictionHard["pid.available"]: 1000: want a quantity in quotes such as "100Mi" or a percentage such as "10%"`,
		}},
		"nothing for a signal": {"evictionHard: {pid.available: }\n", []string{
			`evictionHard["pid.available"]: null: want a quantity in quotes such as "100Mi" or a percentage such as "10%"`,
		}},
		"a signal": {"evictionHard: {memory.free: 1Gi}\n", []string{
			`evictionHard["memory.free"]: unsupported eviction signal memory.free; want one of memory.available, allocatableMemory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, containerfs.available, containerfs.inodesFree, pid.available`,
		}},
		"soft without grace": {"evictionSoft: {memory.available: 1Gi}\n", []string{
			`evictionSoftGracePeriod["memory.available"]: grace period must be specified for the soft eviction threshold memory.available; want a duration such as "1m30s"`,
		}},
		"a grace period without unit, told once": {"evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 90}\n", []string{
			`evictionSoftGracePeriod["memory.available"]: 90: want a duration such as "1m30s"`,
		}},
		"grace periods as a list, told once": {"evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: [90s]\n", []string{
			`evictionSoftGracePeriod: ["90s"]: want durations by signal, such as {"memory.available": "1m30s"}`,
		}},
		"a negative grace period": {"evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: -1s}\n", []string{
			`evictionSoftGracePeriod["memory.available"]: "-1s": invalid eviction grace period specified: -1s, must be a positive value; want a duration such as "1m30s"`,
		}},
		"a negative transition period": {"evictionPressureTransitionPeriod: -5m\n", []string{`evictionPressureTransitionPeriod: "-5m0s": want a duration such as "5m0s"`}},
		"an interval of 0":             {"monitoringInterval: 0s\n", []string{`monitoringInterval: "0s": want a duration of at least 10ms such as "10s"`}},
		"a duration without unit":      {"monitoringInterval: 10\n", []string{`monitoringInterval: 10: want a duration of at least 10ms such as "10s"`}},
		"no whole number":              {"evictionMaxPodGracePeriod: 1.5\n", []string{`evictionMaxPodGracePeriod: 1.5: want a whole number of seconds, at most 2147483647`}},
		"a number too large":           {"evictionMaxPodGracePeriod: 2147483648\n", []string{`evictionMaxPodGracePeriod: 2147483648: want a whole number of seconds, at most 2147483647`}},
		"a relative path":              {"pluginDir: plugins\n", []string{`pluginDir: "plugins": want an absolute path such as "/usr/libexec/evictd/plugins"`}},
		"an empty path":                {"runDir: \"\"\n", []string{`runDir: "": want an absolute path such as "/run/evictd"`}},
		"a socket of another scheme, told once": {"runtimeEndpoint: tcp:///run/containerd/containerd.sock\n", []string{
			`runtimeEndpoint: "tcp:///run/containerd/containerd.sock": want a socket such as "unix:///run/containerd/containerd.sock"`,
		}},
		"a socket path that the kernel refuses": {"imageEndpoint: unix:///" + strings.Repeat("x", 107) + "\n", []string{
			`imageEndpoint: "unix:///` + strings.Repeat("x", 71) + `...: want a socket such as "unix:///run/containerd/containerd.sock"`,
		}},
		"a port alone":          {"metricsBindAddress: \"10269\"\n", []string{`metricsBindAddress: "10269": want an IP address and a port such as "127.0.0.1:10269", or "" for none`}},
		"a host name":           {"metricsBindAddress: example.com:1\n", []string{`metricsBindAddress: "example.com:1": want an IP address and a port such as "127.0.0.1:10269", or "" for none`}},
		"a port that is none":   {"metricsBindAddress: 127.0.0.1:99999\n", []string{`metricsBindAddress: "127.0.0.1:99999": want an IP address and a port such as "127.0.0.1:10269", or "" for none`}},
		"values of few":         {"mode: k8s\ncgroupDriver: cgroupsfs\nlogLevel: trace\npacing: fast\nrankVeto: \"\"\n", []string{`mode: "k8s": want "cri" or "kubernetes"`, `cgroupDriver: "cgroupsfs": want "cgroupfs" or "systemd"`, `logLevel: "trace": want "debug", "info", "warn" or "error"`, `pacing: "fast": want "evictd" or "kubelet"`, `rankVeto: "": want "soft", "always" or "never"`}},
		"pods of a metric":      {"podMetrics: 501\n", []string{`podMetrics: "501": want a whole number of pods from 0 to 500`}},
		"less than no pods":     {"podMetrics: -1\n", []string{`podMetrics: "-1": want a whole number of pods from 0 to 500`}},
		"a removed key":         {"removeEvictedPodsAfter: 24h\n", []string{`removeEvictedPodsAfter: was removed, use the descheduler's RemoveFailedPods`}},
		"YAML's idea of a bool": {"nodeName: no\ndryRun: \"yes\"\n", []string{`dryRun: "yes": want true or false`, `nodeName: false: want a node name in quotes, such as "node-1"`}},
		"required signals":      {"requiredSignals: [memory.available, memory.free]\n", []string{`requiredSignals[1]: "memory.free": want one of the kubelet's signals such as "memory.available", or a domain-qualified one such as "acme.example/nvme.spare"`}},
		"allocatable": {"enforceNodeAllocatable: [none, pods]\n", []string{
			`enforceNodeAllocatable[0]: "none": want a list of "pods", "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible", or "none" alone`,
		}},
		"an assignment": {
			"assign: {memory: {rank: oldest}, memory.available: {sort: a, rank: /b, observe: 1, watch: }, pid.available: oldest}\n",
			[]string{
				`assign["memory.available"].observe: 1: want the file name of a plugin such as "memory"`,
				`assign["memory.available"].watch: null: want the file name of a plugin such as "memory"`,
				`assign["pid.available"]: "oldest": want plugins by capability, such as {"rank": "oldest"}`,
				`assign["memory"]: want one of the kubelet's signals such as "memory.available", or a domain-qualified one such as "acme.example/nvme.spare"`,
				`assign["memory.available"].rank: "/b": want the file name of a plugin such as "memory"`,
				`assign["memory.available"].sort: unknown capability, want one of observe, measure, watch, rank, reclaim`,
			},
		},
		"an assignment that splits a filesystem in every layout": {
			"assign: {nodefs.available: {rank: a}, imagefs.available: {rank: a}, containerfs.available: {rank: b}}\n",
			[]string{
				`assign["nodefs.available"].rank is "a" and assign["containerfs.available"].rank is "b": with the layout shared they are one filesystem, want one plugin for both`,
				`assign["imagefs.available"].rank is "a" and assign["containerfs.available"].rank is "b": with the layout imagefs they are one filesystem, want one plugin for both`,
				`assign["nodefs.available"].rank is "a" and assign["containerfs.available"].rank is "b": with the layout containerfs they are one filesystem, want one plugin for both`,
			},
		},
		"an assignment that splits a filesystem in the layout of the summary": {
			"source: summary\nsummary: {kubeconfig: /k, layout: shared}\nassign: {nodefs.available: {reclaim: a}, imagefs.available: {reclaim: b}}\n",
			[]string{`assign["nodefs.available"].reclaim is "a" and assign["imagefs.available"].reclaim is "b": with the layout shared they are one filesystem, want one plugin for both`},
		},
		"a plugin by path":   {"plugins: {/bin/memory: {}}\n", []string{`plugins["/bin/memory"]: want the file name of a plugin such as "memory", without "/", a leading "." or the ending ".tmp"`}},
		"a plugin's setting": {"plugins: {memory: [], pid: {disabled: 1}}\n", []string{`plugins["memory"]: []: want a mapping such as {"autoMTLS": false, "user": "nobody"}`, `plugins["pid"].disabled: 1: want true or false`}},
		"how a plugin is confined": {
			"plugins: {a: {sha256: abc, user: \"\", group: 7, capabilities: [CAP_ROOT, KILL, x], memoryLimit: 256, cpuLimit: half}, b: {memoryLimit: -1Gi, cpuLimit: 0.001}}\n",
			[]string{
				`plugins["a"].cpuLimit: "half": want a quantity of at least 10m such as "500m", or 0 for no limit`,
				`plugins["a"].group: 7: want the name or number of a group, in quotes`,
				`plugins["a"].sha256: "abc": want the 64 hexadecimal digits that sha256sum prints, in quotes`,
				`plugins["a"].user: "": want the name or number of a user, in quotes`,
				`plugins["a"].capabilities[0]: "CAP_ROOT": want one of capabilities(7) such as "CAP_SYS_ADMIN"`,
				`plugins["a"].capabilities[2]: "x": want one of capabilities(7) such as "CAP_SYS_ADMIN"`,
				`plugins["a"].memoryLimit: "256": want a quantity of at least 16Mi such as "256Mi", or 0 for no limit`,
				`plugins["b"].memoryLimit: "-1Gi": want a quantity of at least 16Mi such as "256Mi", or 0 for no limit`,
				`plugins["b"].cpuLimit: "1m": want a quantity of at least 10m such as "500m", or 0 for no limit`,
			},
		},
		"limits that would take for ever to read": {"plugins: {a: {memoryLimit: 1E-99999999, cpuLimit: \"1E-99999999\"}}\n", []string{
			`plugins["a"].cpuLimit: "1E-99999999": want a quantity of at least 10m such as "500m", or 0 for no limit`,
		}},
		"what JSON does not have": {"plugins: {memory: {config: {a: .inf}}}\n", []string{`plugins.memory.config.a: +Inf, want a finite number`}},
		"a key that is nothing":   {"plugins: {~: {}}\n", []string{`plugins: key <nil>, want a word`}},
		"a key that is a list":    {"? [a]\n: b\n", []string{`top level: key [a], want a word`}},
		"all at once": {"mode: k8s\nfoo: 1\ndryRun: 3\nevictionHard: {memory.available: abc, nodefs.available: 5}\nmode: cri\n", []string{
			`mode: given twice, again on line 5`,
			`dryRun: 3: want true or false`,
			`evictionHard["nodefs.available"]: 5: want a quantity in quotes such as "100Mi" or a percentage such as "10%"`,
			`foo: unknown field, want one of `,
			`evictionHard["memory.available"]: "abc": quantities must match`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, c.file)
			_, err := Load(file)
			got := lines(err, file)
			for i := range min(len(got), len(c.want)) {
				// A long line is compared by its beginning.
				if strings.HasPrefix(got[i], c.want[i]) && name == "all at once" {
					got[i] = c.want[i]
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	large := filepath.Join(dir, "large")
	testos.WriteFile(t, large, make([]byte, maxFileBytes+1), 0o600)
	absent := filepath.Join(dir, "absent")
	kernel := filepath.Join(dir, "kernel")
	testos.Symlink(t, "/proc/kmsg", kernel)
	for file, want := range map[string]string{
		absent:      "no such file or directory",
		dir:         "is a directory, want a regular file",
		pipe:        "is a pipe, want a regular file",
		socket:      "is a socket, want a regular file",
		"/dev/null": "is a device, want a regular file",
		kernel:      "is a file of the kernel's, want a regular file",
		large:       "is larger than 1 MiB",
	} {
		if _, err := Load(file); err == nil || err.Error() != "--config: "+file+": "+want {
			t.Errorf("Load(%s): %v, want %s", file, err, want)
		}
	}
}

// The YAML library bounds how many nodes aliases make, not how many bytes.
func TestAliasesDoNotFillMemory(t *testing.T) {
	content := "plugins:\n  a:\n    config:\n      s: &s " + strings.Repeat("x", 100_000) + "\n      l: [" + strings.Repeat("*s, ", 90) + "]\n"
	file := write(t, content)
	_, err := Load(file)
	if diff := cmp.Diff([]string{"has aliases that expand to more than 4 MiB"}, lines(err, file)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestRubbishIsReportedBriefly(t *testing.T) {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "\"k\\e[31m%d\": %d\n", i, i)
	}
	file := write(t, b.String())
	_, err := Load(file)
	got := lines(err, file)
	if len(got) != maxErrors || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%d lines of error, want %d, without escape characters", len(got), maxErrors)
	}
}
