package inspect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/testos"
)

type amounts = map[string]string

// of8Gi returns the configuration of a node with 8 GiB of memory and 1000 process ids, 6 GiB of them for all pods.
func of8Gi(t *testing.T) *config.Config {
	t.Helper()
	c := config.Default()
	c.RootDir, c.EvictionHard = t.TempDir(), amounts{}
	for name, text := range map[string]string{
		"proc/meminfo": "MemTotal: 8388608 kB\n", "proc/loadavg": "0 0 0 1/10 9\n", "proc/sys/kernel/pid_max": "1000\n", "proc/self/status": "NSpid:\t1\n",
		"sys/fs/cgroup/cgroup.controllers": "memory pids\n", "sys/fs/cgroup/memory.stat": "inactive_file 0\n", "sys/fs/cgroup/memory.current": "1\n",
		"sys/fs/cgroup/kubepods.slice/memory.max": "6442450944\n", "sys/fs/cgroup/kubepods.slice/memory.current": "1\n",
		"sys/fs/cgroup/kubepods.slice/memory.stat": "inactive_file 0\n", "sys/fs/cgroup/kubepods.slice/cgroup.controllers": "memory\n",
	} {
		testos.Put(t, filepath.Join(c.RootDir, name), text, 0o600)
	}
	return &c
}

func finds(t *testing.T, c *config.Config, name string) (texts []string) {
	t.Helper()
	for _, f := range run(t.Context(), Options{Config: c, left: new(hang.Left)}, func(p probe) bool { return p.name == name }) {
		texts = append(texts, string(f.Level)+" "+f.Text)
	}
	return texts
}

// memory.available of 1Gi with a minimum reclaim of 8Gi, of 8Gi: pods went without end, and check was silent.
func TestAMinimumReclaimAboveTheCapacityIsSaid(t *testing.T) {
	const ever = ": once the threshold is met it stays met, and pod after pod goes; want less than "
	for name, c := range map[string]struct {
		hard, soft, reclaim amounts
		want                []string
	}{
		"above": {hard: amounts{"memory.available": "1Gi"}, reclaim: amounts{"memory.available": "8Gi"}, want: []string{
			`warning evictionMinimumReclaim["memory.available"]: "8Gi": with 1Gi of evictionHard it is not below the capacity of this node, 8Gi` + ever + "7Gi",
			`warning evictionMinimumReclaim["memory.available"]: "8Gi": with 1Gi of evictionHard it is not below the capacity of all pods, 6Gi` + ever + "5Gi",
		}},
		"as much as there is": {soft: amounts{"pid.available": "200"}, reclaim: amounts{"pid.available": "800"}, want: []string{
			`warning evictionMinimumReclaim["pid.available"]: "800": with 200 of evictionSoft it is not below the capacity of this node, 1k` + ever + "800",
		}},
		"shares": {hard: amounts{"pid.available": "10%"}, reclaim: amounts{"pid.available": "95%"}, want: []string{
			`warning evictionMinimumReclaim["pid.available"]: "95%": with 10% of evictionHard it is not below the capacity of this node, 1k` + ever + "900",
		}},
		"of all pods alone": {hard: amounts{"memory.available": "1Gi"}, reclaim: amounts{"memory.available": "5Gi"}, want: []string{
			`warning evictionMinimumReclaim["memory.available"]: "5Gi": with 1Gi of evictionHard it is not below the capacity of all pods, 6Gi` + ever + "5Gi",
		}},
		"the threshold itself": {hard: amounts{"pid.available": "2k"}, reclaim: amounts{"pid.available": "1"}, want: []string{
			`fatal evictionHard["pid.available"]: "2k": is above the capacity of this node, 1k: every pod would be evicted; want less`,
		}},
		"below":     {hard: amounts{"memory.available": "1Gi", "pid.available": "10%"}, reclaim: amounts{"memory.available": "4Gi", "pid.available": "89%"}},
		"none":      {hard: amounts{"memory.available": "7Gi"}},
		"elsewhere": {hard: amounts{"memory.available": "1Gi"}, reclaim: amounts{"pid.available": "8Gi"}},
	} {
		cfg := of8Gi(t)
		cfg.EvictionHard, cfg.EvictionSoft, cfg.EvictionMinimumReclaim, cfg.EvictionSoftGracePeriod = c.hard, c.soft, c.reclaim, amounts{}
		for s := range c.soft {
			cfg.EvictionSoftGracePeriod[s] = "1m"
		}
		if got := finds(t, cfg, "capacity"); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// A node lost pods 100 to 190 MiB earlier than under its kubelet, and check was silent.
func TestAThresholdThatIsMetEarlierThanAKubeletsIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		figure, pacing, memAvailable, value string
		want                                []string
	}{
		"earlier": {"auto", "evictd", "6291456", "3Gi", []string{
			`advice memory.available<3Gi is met 2047Mi earlier than a kubelet's: memory.available is MemAvailable, 6144Mi, and in a kubelet 8191Mi; its 3Gi is 1024Mi here, or set memoryFigure to "kubelet"`,
		}},
		"never equal": {"lower", "kubelet", "6291456", "1Gi", []string{
			`advice memory.available<1Gi is met 2047Mi earlier than a kubelet's: memory.available is MemAvailable, 6144Mi, and in a kubelet 8191Mi; its 1Gi is no value here, or set memoryFigure to "kubelet"`,
		}},
		"as a kubelet's":         {"kubelet", "evictd", "6291456", "3Gi", nil},
		"in a kubelet's place":   {"auto", "kubelet", "6291456", "3Gi", nil},
		"hardly different":       {"auto", "evictd", "8388000", "3Gi", nil},
		"of the kernel's figure": {"memAvailable", "kubelet", "8388000", "3Gi", nil},
	} {
		cfg := of8Gi(t)
		testos.Put(t, filepath.Join(cfg.RootDir, "proc/meminfo"), "MemTotal: 8388608 kB\nMemAvailable: "+c.memAvailable+" kB\n", 0o600)
		cfg.EvictionHard, cfg.MemoryFigure, cfg.Pacing, cfg.EnforceNodeAllocatable = amounts{"memory.available": c.value}, c.figure, c.pacing, nil
		if got := finds(t, cfg, "thresholds"); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// memory.available of "100", meant as Mi, was never met, and check was silent.
func TestAnAmountThatHasLostItsUnitIsSaid(t *testing.T) {
	const (
		less   = `: is less than 1 MiB, hardly what is meant; want a unit as in "100Mi", or a percentage`
		number = `: is not a number of processes or inodes; want one without a unit as in "1000", or a percentage`
	)
	for text, want := range map[string]string{
		"memory.available=100": less, "memory.available=100m": less, "memory.available=0.1": less, "nodefs.available=500k": less, "imagefs.available=1e3": less,
		"pid.available=100m": number, "nodefs.inodesFree=100Mi": number, "imagefs.inodesFree=0.1": number,
		"memory.available=1": "", "memory.available=1Mi": "", "memory.available=100M": "", "memory.available=5%": "", "nodefs.available=0": "", "pid.available=0%": "",
		"nodefs.inodesFree=10k": "", "pid.available=1": "", "acme.example/nvme.spare=100": "",
	} {
		signal, value, _ := strings.Cut(text, "=")
		for field, set := range map[string]func(*config.Config){
			"evictionHard":           func(c *config.Config) { c.EvictionHard[signal] = value },
			"evictionSoft":           func(c *config.Config) { c.EvictionSoft = amounts{signal: value} },
			"evictionMinimumReclaim": func(c *config.Config) { c.EvictionMinimumReclaim = amounts{signal: value} },
		} {
			c := of8Gi(t)
			set(c)
			got := strings.Join(slices.DeleteFunc(finds(t, c, "thresholds"), func(s string) bool { return strings.Contains(s, "is met now") }), " ")
			if want != "" {
				want = "advice " + field + `["` + signal + `"]: "` + value + `"` + want[strings.Index(want, ": is"):]
			}
			if got != want {
				t.Errorf("%s %s: %q, want %q", field, text, got, want)
			}
		}
	}
}

// kubepods had lost its limit, and with it allocatableMemory.available, while the kubelet's file reserved 4Gi: check was silent.
func TestACgroupOfAllPodsThatHasLostItsLimitIsSaid(t *testing.T) {
	const reserves = "kubeReserved: {memory: 3Gi}\nsystemReserved: {memory: 1Gi}\n"
	for name, c := range map[string]struct {
		kubelet, limit string
		source         string
		said           bool
	}{
		"lost":                          {kubelet: reserves, limit: "max", said: true},
		"there":                         {kubelet: reserves, limit: "6442450944"},
		"nothing is reserved":           {kubelet: "kubeReserved: {cpu: 1}\n", limit: "max"},
		"pods are not held to it":       {kubelet: reserves + "enforceNodeAllocatable: [none]\n", limit: "max"},
		"pods have no cgroups":          {kubelet: reserves + "cgroupsPerQOS: false\nenforceNodeAllocatable: []\n", limit: "max"},
		"the kubelet has not begun":     {kubelet: reserves},
		"the figures are the kubelet's": {kubelet: reserves, limit: "max", source: config.SourceSummary},
	} {
		cfg := of8Gi(t)
		cfg.EvictionHard, cfg.BesideKubelet = amounts{"memory.available": "1Gi"}, filepath.Join(cfg.RootDir, "kubelet.yaml")
		if c.source != "" {
			cfg.Source = c.source
		}
		testos.WriteFile(t, cfg.BesideKubelet, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+c.kubelet, 0o600)
		cgroup := filepath.Join(cfg.RootDir, "sys/fs/cgroup/kubepods.slice")
		if c.limit == "" {
			if err := os.RemoveAll(cgroup); err != nil {
				t.Fatal(err)
			}
		} else {
			testos.WriteFile(t, filepath.Join(cgroup, "memory.max"), c.limit+"\n", 0o600)
		}
		want := `warning besideKubelet: allocatableMemory.available: allocatable: the kubelet reserves 4Gi of memory, and the cgroup of all pods has no limit: its thresholds have no effect, and pods may take what is reserved; want a restart of the kubelet, which sets the limit`
		got := finds(t, cfg, KubeletConfiguration)
		if slices.Contains(got, want) != c.said || strings.Contains(strings.Join(got, " "), "allocatableMemory") != c.said {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The chart's besideKubelet is for all nodes: where the kubelet is not found an event said that its settings are wrong.
func TestAKubeletThatIsNotThereIsNoConflict(t *testing.T) {
	cfg := of8Gi(t)
	bad := filepath.Join(cfg.RootDir, "kubelet.yaml")
	testos.WriteFile(t, bad, "kind: Pod\n", 0o600)
	for beside, noEvent := range map[string]bool{config.BesideRunning: true, "/nonexistent": true, bad: false} {
		cfg.BesideKubelet = beside
		all := run(t.Context(), Options{Config: cfg, left: new(hang.Left)}, func(p probe) bool { return p.name == KubeletConfiguration })
		if len(all) == 0 || all[0].Level != Warning || all[0].NoEvent != noEvent {
			t.Errorf("%s: %+v, want a warning, without an event: %v", beside, all, noEvent)
		}
	}
}
