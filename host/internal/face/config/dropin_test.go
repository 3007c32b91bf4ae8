package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/node/programs"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

// writeDropIns writes files by name, each a kubelet's that goes on with the text.
func writeDropIns(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		testos.MkdirAll(t, filepath.Dir(file), 0o700)
		testos.WriteFile(t, file, kubeletHead+content, 0o600)
	}
	return dir
}

func TestDropInsAreMergedAsByTheKubelet(t *testing.T) {
	for name, c := range map[string]struct {
		file    string // "none" is for no file
		dropIns map[string]string
		want    func(*Config)
	}{
		"no drop-in": {"evictionHard: {memory.available: 1Gi}", nil, func(c *Config) {
			c.EvictionHard = map[string]string{"memory.available": "1Gi"}
		}},
		"key by key, over the defaults where the file has no hard thresholds": {"", map[string]string{"a.conf": "evictionHard: {memory.available: 1Gi}"}, func(c *Config) {
			c.EvictionHard = policy.DefaultHard()
			c.EvictionHard["memory.available"] = "1Gi"
		}},
		"in lexical order, directories below included, other files not": {"evictionMaxPodGracePeriod: 1", map[string]string{
			"10-a.conf": "evictionMaxPodGracePeriod: 10", "20/z.conf": "evictionMaxPodGracePeriod: 20", "15-b.conf": "evictionMaxPodGracePeriod: 15", "30.yaml": "evictionMaxPodGracePeriod: 30", "40.conf.bak": "port: [",
		}, func(c *Config) { c.EvictionMaxPodGracePeriod = 20 }},
		"null takes away": {"evictionHard: {memory.available: 1Gi, pid.available: 5%}\nevictionMaxPodGracePeriod: 5", map[string]string{
			"a.conf": "evictionHard: {memory.available: null}\nevictionMaxPodGracePeriod: null",
		}, func(c *Config) { c.EvictionHard = map[string]string{"pid.available": "5%"} }},
		"null takes the defaults away":                         {"", map[string]string{"a.conf": "evictionHard: null"}, func(c *Config) { c.EvictionHard = map[string]string{} }},
		"lists are replaced, an empty one in the file is none": {"enforceNodeAllocatable: []", nil, func(*Config) {}},
		"an empty list in a drop-in stays":                     {"", map[string]string{"a.conf": "enforceNodeAllocatable: []"}, func(c *Config) { c.EnforceNodeAllocatable = []string{} }},
		"gates one by one": {"featureGates: {PodLevelResources: false, Odd: true}", map[string]string{"a.conf": "featureGates: {AllBeta: true}"}, func(c *Config) {
			c.FeatureGates = map[string]bool{"PodLevelResources": false, "AllBeta": true}
		}},
		"defaults are merged into the file alone": {"mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi}", map[string]string{"a.conf": "evictionHard: {nodefs.available: null}"}, func(c *Config) {
			c.EvictionHard = policy.DefaultHard()
			c.EvictionHard["memory.available"] = "1Gi"
			delete(c.EvictionHard, "nodefs.available")
		}},
		"a drop-in has no defaults merged": {"evictionHard: {memory.available: 1Gi}", map[string]string{"a.conf": "mergeDefaultEvictionSettings: true"}, func(c *Config) {
			c.EvictionHard = map[string]string{"memory.available": "1Gi"}
		}},
		"without a file there are no default thresholds": {"none", map[string]string{"a.conf": "evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}"}, func(c *Config) {
			c.EvictionHard = map[string]string{}
			c.EvictionSoft, c.EvictionSoftGracePeriod = map[string]string{"memory.available": "1Gi"}, map[string]string{"memory.available": "1m"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"--kubelet-config-dir", writeDropIns(t, c.dropIns)}
			if c.file != "none" {
				args = append(args, "--kubelet-config", writeKubelet(t, c.file))
			}
			got, err := parse(t, args...)
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

// The kubelet reads paths of its file from where that is, with drop-ins too.
func TestAPathUnderDropInsIsRelativeToItsFile(t *testing.T) {
	file := writeKubelet(t, "staticPodPath: static\n")
	c, err := parse(t, "--kubelet-config", file, "--kubelet-config-dir", writeDropIns(t, map[string]string{"a.conf": ""}))
	if want := filepath.Join(filepath.Dir(file), "static"); err != nil || c.StaticPodPath != want {
		t.Errorf("staticPodPath is %q (%v), want %q", c.StaticPodPath, err, want)
	}
}

func TestErrorsNameTheDropIn(t *testing.T) {
	kubelet := writeKubelet(t, "evictionSoft: {memory.available: 1Gi}\nevictionHard: {pid.available: much}\n")
	for name, c := range map[string]struct {
		dropIns map[string]string
		want    []string // with DIR and FILE
	}{
		"of the wrong type": {map[string]string{"a.conf": "cgroupsPerQOS: 5", "b.conf": "cgroupsPerQOS: true\nevictionSoft: null\nevictionHard: null"}, []string{"DIR/a.conf: cgroupsPerQOS: 5: want true or false"}},
		"each value by its own file": {map[string]string{"a.conf": "evictionHard: {memory.available: abc}", "b.conf": "evictionHard: {nodefs.available: 1%}\nevictionSoftGracePeriod: {nodefs.available: 1m}"}, []string{
			`DIR/a.conf: evictionHard["memory.available"]: "abc": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; want a quantity such as "1Gi" or a percentage such as "10%"`,
			`FILE: evictionHard["pid.available"]: "much": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; want a quantity such as "1Gi" or a percentage such as "10%"`,
			`FILE: evictionSoftGracePeriod["memory.available"]: grace period must be specified for the soft eviction threshold memory.available; want a duration such as "1m30s"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeDropIns(t, c.dropIns)
			_, err := parse(t, "--kubelet-config", kubelet, "--kubelet-config-dir", dir)
			text := strings.NewReplacer(dir, "DIR", kubelet, "FILE").Replace(fmt.Sprint(err))
			if diff := cmp.Diff(c.want, strings.Split(text, "\n")); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
	dir := writeDropIns(t, map[string]string{"a.conf": ""})
	testos.Symlink(t, "/dev/zero", filepath.Join(dir, "b.conf"))
	many := map[string]string{}
	for i := range 300 {
		many[fmt.Sprintf("%d.yaml", i)] = ""
	}
	full := writeDropIns(t, many)
	for dir, want := range map[string]string{
		dir:         dir + "/b.conf: is a device, want a regular file",
		dir + "/no": dir + "/no: no such file or directory",
		full:        full + ": has more than 256 files",
	} {
		if _, err := parse(t, "--kubelet-config-dir", dir); fmt.Sprint(err) != "--kubelet-config-dir: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The last of two files was taken, and nothing was said of the first.
func TestAFileThatIsGivenTwiceIsAnError(t *testing.T) {
	for _, flag := range []string{"config", "kubelet-config", "kubelet-config-dir"} {
		_, err := parse(t, "--"+flag, "/nonexistent/a", "--"+flag+"=/nonexistent/b")
		if want := "--" + flag + `: given twice, "/nonexistent/a" and "/nonexistent/b": want one`; !strings.HasPrefix(fmt.Sprint(err)+"\n", want+"\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestWhatAKubeletKeepsFromPodsIsInItsDropIns(t *testing.T) {
	file := writeKubelet(t, "kubeReserved: {memory: 1Gi, cpu: 70m}\nsystemReserved: {memory: 100Mi}\n")
	k, err := LoadKubelet(nodefs.FS{}, programs.Kubelet{File: file, Dir: writeDropIns(t, map[string]string{"a.conf": "kubeReserved: {memory: 2Gi}\ncgroupsPerQOS: false"})})
	if err != nil || k.Reserved.Memory.String() != "2148Mi" || k.Config.CgroupsPerQOS {
		t.Errorf("%s are reserved, cgroupsPerQOS is %v (%v), want 2148Mi and false", &k.Reserved.Memory, k.Config.CgroupsPerQOS, err)
	}
	file = writeKubelet(t, "memoryManagerPolicy: Static\nsystemReserved: {memory: 1Gi, ephemeral-storage: 2Gi}\nkubeReserved: {ephemeral-storage: 1Gi, memory: 24Mi}\nreservedMemory: [{numaNode: 0, limits: {memory: 600Mi}}, {numaNode: 1, limits: {memory: 524Mi, hugepages-2Mi: 1Gi}}]\n")
	k, err = LoadKubelet(nodefs.FS{}, programs.Kubelet{File: file})
	if err != nil || k.Reserved.Storage.String() != "3Gi" || k.Reserved.Static.String() != "1100Mi" || k.Reserved.System["memory"] != "1Gi" {
		t.Errorf("reserved are %+v (%v), want 3Gi of the disk, and 1100Mi of the memory of NUMA nodes", k.Reserved, err)
	}
	dir := writeDropIns(t, map[string]string{"a.conf": "kubeReserved: {memory: much}", "b.conf": "kubeReserved: {cpu: 70m}"})
	if _, err := LoadKubelet(nodefs.FS{}, programs.Kubelet{File: file, Dir: dir}); !strings.HasPrefix(fmt.Sprint(err), dir+`/a.conf: kubeReserved["memory"]: "much": `) {
		t.Errorf("%v, want an error of a.conf", err)
	}
}
