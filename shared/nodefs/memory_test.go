package nodefs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

const (
	memTotal = 24684096 << 10
	podUID   = "11111111-2222-3333-4444-555555555555"
)

func node(name string) FS { return FS{Root: filepath.Join("testdata", name)} }

func hierarchy(t *testing.T, f FS) Hierarchy {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(f.Root) {
		f.Root = filepath.Join(wd, f.Root)
	}
	h, err := f.MemoryHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestMemoryHierarchy(t *testing.T) {
	for name, want := range map[string]struct {
		version Version
		dir     string
	}{
		"node-v1":         {V1, "/sys/fs/cgroup/memory"},
		"node-hybrid":     {V1, "/sys/fs/cgroup/memory"},
		"node-v2":         {V2, "/sys/fs/cgroup"},
		"node-v2-systemd": {V2, "/sys/fs/cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			if h := hierarchy(t, node(name)); h.Version != want.version || h.Dir != want.dir {
				t.Errorf("found version %d at %s, want %d at %s", h.Version, h.Dir, want.version, want.dir)
			}
		})
	}
}

func TestHybridNodeWhoseSecondHierarchyHasTheMemory(t *testing.T) {
	root := t.TempDir()
	write(t, root, "sys/fs/cgroup/unified/cgroup.controllers", "memory pids\n")
	if h := hierarchy(t, FS{Root: root}); h.Version != V2 || h.Dir != "/sys/fs/cgroup/unified" {
		t.Errorf("found version %d at %s, want the unified hierarchy", h.Version, h.Dir)
	}
}

func TestNodeWithoutMemoryControllerNamesWhatWasTried(t *testing.T) {
	root := t.TempDir()
	write(t, root, "sys/fs/cgroup/cgroup.controllers", "cpu memory_like pids\n")
	_, err := FS{Root: root}.MemoryHierarchy()
	if err == nil {
		t.Fatal("found a hierarchy, want an error")
	}
	for _, want := range []string{"cgroup/memory/memory.usage_in_bytes", "cgroup/cgroup.controllers does not list memory", "unified/cgroup.controllers"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not mention %q", err, want)
		}
	}
}

// A kernel without the memory controller (raspberrypi) made evictd blame cgroupRoot, in four lines.
func TestAKernelWithoutAControllerIsBlamedOnTheConfiguration(t *testing.T) {
	const head = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
	const lacks = "no memory cgroup controller: "
	for name, c := range map[string]struct {
		cgroups, want string
		nested        bool // /sys/fs/cgroup is not the root of the node's cgroups
	}{
		"off":                       {head + "cpu\t0\t80\t1\nmemory\t0\t80\t0\n", lacks + "the kernel was started without it; add cgroup_enable=memory to its command line", false},
		"not built":                 {head + "cpu\t0\t80\t1\npids\t0\t80\t1\n", lacks + "the kernel was built without it; want one with CONFIG_MEMCG=y", false},
		"not delegated":             {head + "cpu\t0\t80\t1\npids\t0\t80\t1\n", lacks + "it is not delegated to /sys/fs/cgroup; add it to cgroup.subtree_control of the parent, or mount the root of the node's cgroups there", true},
		"on, but not given to us":   {head + "memory\t0\t80\t1\n", "cgroup.controllers does not list memory", true},
		"a kernel without the file": {"", "cgroup.controllers does not list memory", false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "sys/fs/cgroup/cgroup.controllers", "cpu pids\n")
			if c.cgroups != "" {
				write(t, root, "proc/cgroups", c.cgroups)
			}
			if c.nested {
				write(t, root, "sys/fs/cgroup/cgroup.type", "domain\n")
			}
			f := FS{Root: root}
			_, err := f.MemoryHierarchy()
			_, all := f.ReadNodeMemory(MemoryRules{})
			for _, err := range []error{err, all} {
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.HasPrefix(c.want, lacks) && err.Error() != c.want {
					t.Errorf("error %v, want %q", err, c.want)
				}
			}
		})
	}
	root := t.TempDir()
	write(t, root, "proc/cgroups", head)
	if _, err := (FS{Root: root}).PIDsHierarchy(); err == nil || err.Error() != "no pids cgroup controller: the kernel was built without it; want one with CONFIG_CGROUP_PIDS=y" {
		t.Errorf("pids: %v", err)
	}
}

func TestNodeMemory(t *testing.T) {
	for name, want := range map[string]MemoryUse{
		"node-v1":     {UsageBytes: 690917376, InactiveFileBytes: 143720448},
		"node-hybrid": {UsageBytes: 690917376, InactiveFileBytes: 143720448},
		"node-v2":     {UsageBytes: 2147483648 + 1073741824, InactiveFileBytes: 536870912},
	} {
		t.Run(name, func(t *testing.T) {
			h := hierarchy(t, node(name))
			got, err := h.FS.ReadNodeMemory(MemoryRules{MemAvailable: true})
			if err != nil {
				t.Fatal(err)
			}
			workingSet := want.UsageBytes - want.InactiveFileBytes
			if got != (MemorySample{MemoryUse: want, Limited: true, LimitBytes: memTotal, CapacityBytes: memTotal, AvailableBytes: memTotal - workingSet, MemAvailableBytes: 24307448 << 10, HasMemAvailable: true}) {
				t.Errorf("read %+v, want use %+v of %d", got, want, int64(memTotal))
			}
			if got.WorkingSetBytes() != workingSet || got.AvailableBytes+got.WorkingSetBytes() != got.CapacityBytes {
				t.Errorf("working set %d and available %d do not make %d", got.WorkingSetBytes(), got.AvailableBytes, got.CapacityBytes)
			}
		})
	}
}

// A node of 64 GiB with 40 GiB of huge pages had 42 GiB available, and no threshold acted
// while 2 GiB were left.
func TestWhatNoCgroupUsesIsNotAvailable(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		meminfo string
		capped  bool
		want    int64
		wantErr string
		// excluded, if not 0, excludes huge pages and is the capacity then.
		excluded int64
	}{
		"a pool of huge pages":                      {"MemAvailable: 2097152 kB\nHugePages_Total: 20480\nHugepagesize: 2048 kB\n", true, 2 * gib, "", 0},
		"nothing is left":                           {"MemAvailable: 0 kB\n", true, 0, "", 0},
		"more page cache than the kubelet counts":   {"MemAvailable: 52428800 kB\n", true, 42 * gib, "", 0},
		"as in the kubelet until v1.36":             {"MemAvailable: 2097152 kB\nHugetlb: 39845888 kB\n", false, 42 * gib, "", 0},
		"as in the kubelet since v1.37":             {"MemAvailable: 2097152 kB\nHugetlb: 39845888 kB\n", false, 4 * gib, "", 26 * gib},
		"excluded and capped":                       {"MemAvailable: 2097152 kB\nHugetlb: 39845888 kB\n", true, 2 * gib, "", 26 * gib},
		"a kernel without huge pages":               {"MemAvailable: 2097152 kB\n", false, 42 * gib, "", 64 * gib},
		"huge pages in another unit":                {"Hugetlb: 1 MB\n", false, 0, "proc/meminfo: Hugetlb:", 64 * gib},
		"a kernel that does not say":                {"MemFree: 2097152 kB\n", true, 42 * gib, "", 0},
		"what the kernel never prints is no figure": {"MemAvailable: much\n", true, 0, "proc/meminfo: MemAvailable:", 0},
	} {
		for version, files := range map[string]map[string]string{
			"v1": {"sys/fs/cgroup/memory/memory.usage_in_bytes": "24696061952\n", "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 1073741824\n"},
			"v2": {"sys/fs/cgroup/cgroup.controllers": "memory\n", "sys/fs/cgroup/memory.stat": "anon 22548578304\nfile 2147483648\ninactive_file 1073741824\n"},
		} {
			t.Run(name+" "+version, func(t *testing.T) {
				root := t.TempDir()
				write(t, root, "proc/meminfo", "MemTotal: 67108864 kB\n"+c.meminfo)
				for file, text := range files {
					write(t, root, file, text)
				}
				got, err := hierarchy(t, FS{Root: root}).NodeMemory(MemoryRules{MemAvailable: c.capped, ExcludeHugePages: c.excluded != 0}).Read(&Buffer{})
				checkParsed(t, got.AvailableBytes, err, c.want, c.wantErr)
				if want := cmp.Or(c.excluded, 64*gib); err == nil && got.CapacityBytes != want {
					t.Errorf("a capacity of %d, want %d", got.CapacityBytes, want)
				}
			})
		}
	}
}

// MemAvailable was the lower figure on stock kernels, and pods went 190 MiB earlier than under their kubelet.
func TestMemoryAvailableIsTheFigureThatWasChosen(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		memAvailable, usage, limit        int64 // GiB, the limit of a container
		lower, kubelet, memAvailableWants int64
	}{
		"the kernel counts less":             {2, 20, 0, 2, 44, 2},
		"the kernel counts more":             {50, 20, 0, 44, 44, 50},
		"more is used than the machine has":  {2, 99, 0, 2, 2, 2},
		"a container has less left":          {50, 20, 30, 10, 10, 10},
		"a container on a machine with less": {2, 20, 30, 2, 10, 2},
	} {
		root := t.TempDir()
		write(t, root, "proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemAvailable: %d kB\n", 64*gib>>10, c.memAvailable*gib>>10))
		write(t, root, "sys/fs/cgroup/memory/memory.usage_in_bytes", fmt.Sprintln(c.usage*gib))
		write(t, root, "sys/fs/cgroup/memory/memory.stat", "total_inactive_file 0\n")
		if c.limit > 0 {
			write(t, root, "sys/fs/cgroup/memory/memory.limit_in_bytes", fmt.Sprintln(c.limit*gib))
		}
		for figure, want := range map[string]int64{"lower": c.lower, KubeletMemory: c.kubelet, MemAvailable: c.memAvailableWants} {
			got := read(t, hierarchy(t, FS{Root: root}).NodeMemory(MemoryRules{MemAvailable: true, Figure: figure}))
			if got.AvailableBytes != want*gib || got.MemAvailableBytes != c.memAvailable*gib {
				t.Errorf("%s, figure %s: %d available, MemAvailable %d; want %d GiB", name, figure, got.AvailableBytes, got.MemAvailableBytes, want)
			}
		}
	}
}

func TestMemoryOfTheCgroupOfPods(t *testing.T) {
	const use, inactive = 5000003584, 1000001536
	t.Run("limited", func(t *testing.T) {
		for name, cgroup := range map[string]string{"node-v1": "/kubepods", "node-v2-systemd": "/kubepods.slice"} {
			got := read(t, hierarchy(t, node(name)).CgroupMemory(cgroup))
			if !got.Limited || got.CapacityBytes != 8<<30 || got.AvailableBytes != 8<<30-(use-inactive) {
				t.Errorf("%s: read %+v", name, got)
			}
		}
	})
	t.Run("without a limit nothing is available", func(t *testing.T) {
		got := read(t, hierarchy(t, node("node-v2")).CgroupMemory("/kubepods"))
		if got.Limited || got.AvailableBytes != 0 || got.CapacityBytes != 0 || got.UsageBytes != use {
			t.Errorf("read %+v, want usage without a limit", got)
		}
	})
	t.Run("missing", func(t *testing.T) {
		_, err := hierarchy(t, node("node-hybrid")).CgroupMemory("/kubepods").Read(&Buffer{})
		if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "memory/kubepods/memory.limit_in_bytes") {
			t.Errorf("error = %v, want gone with the path", err)
		}
	})
}

func TestUseOverTheLimitLeavesZero(t *testing.T) {
	if s := sample(MemoryUse{UsageBytes: 900}, 800, 0, true); s.AvailableBytes != 0 || s.CapacityBytes != 800 {
		t.Errorf("sample = %+v, want 0 of 800", s)
	}
}

func TestWorkingSet(t *testing.T) {
	for name, c := range map[string]struct {
		use  MemoryUse
		want int64
	}{
		"cache is not use":         {MemoryUse{UsageBytes: 900, InactiveFileBytes: 300}, 600},
		"more cache than use is 0": {MemoryUse{UsageBytes: 100, InactiveFileBytes: 300}, 0},
	} {
		if got := c.use.WorkingSetBytes(); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestGaugeFollowsACgroupThatIsMadeAgain(t *testing.T) {
	root := t.TempDir()
	write(t, root, "sys/fs/cgroup/cgroup.controllers", "memory\n")
	cgroup := filepath.Join(root, "sys/fs/cgroup/kubepods")
	gauge := hierarchy(t, FS{Root: root}).CgroupMemory("/kubepods")
	if _, err := gauge.Read(&Buffer{}); !errors.Is(err, ErrGone) {
		t.Fatalf("error = %v, want gone", err)
	}
	for _, usage := range []string{"100", "200"} {
		write(t, cgroup, "memory.max", "1000\n")
		write(t, cgroup, "memory.current", usage+"\n")
		write(t, cgroup, "memory.stat", "inactive_file 0\n")
		gauge.Close() // a regular file never says ENODEV; the kernel's test is in plugins/memory
		if got := read(t, gauge); got.CapacityBytes-got.AvailableBytes != got.UsageBytes || got.UsageBytes < 100 {
			t.Errorf("read %+v", got)
		}
		if err := os.RemoveAll(cgroup); err != nil {
			t.Fatal(err)
		}
	}
	gauge.Close()
	if _, err := gauge.Read(&Buffer{}); !errors.Is(err, ErrGone) {
		t.Errorf("error = %v, want gone", err)
	}
}

func TestUnreadableFigureNamesItsFile(t *testing.T) {
	root := t.TempDir()
	write(t, root, "sys/fs/cgroup/cgroup.controllers", "memory\n")
	write(t, root, "sys/fs/cgroup/kubepods/memory.max", "max\n")
	write(t, root, "sys/fs/cgroup/kubepods/memory.current", "rubbish\n")
	write(t, root, "sys/fs/cgroup/kubepods/memory.stat", "")
	_, err := hierarchy(t, FS{Root: root}).CgroupMemory("/kubepods").Read(&Buffer{})
	if err == nil || errors.Is(err, ErrGone) || !strings.Contains(err.Error(), filepath.Join(root, "sys/fs/cgroup/kubepods/memory.current")) {
		t.Errorf("error = %v, want a parse error with the path", err)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	for _, name := range []string{"node-v1", "node-v2"} {
		h := hierarchy(t, node(name))
		total, pods := h.NodeMemory(MemoryRules{MemAvailable: true}), h.CgroupMemory("/kubepods")
		pod, err := h.OpenMemory("/kubepods/burstable/pod" + podUID)
		if err != nil {
			t.Fatal(err)
		}
		var b Buffer
		allocs := testing.AllocsPerRun(100, func() {
			_, err1 := total.Read(&b)
			_, err2 := pods.Read(&b)
			_, err3 := pod.Read(&b)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			if !pod.Alive(&b) || BootNanos() == 0 {
				t.Fatal("pod is not alive or there is no boot clock")
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations a read, want 0", name, allocs)
		}
	}
}

func read(t *testing.T, g *MemoryGauge) MemorySample {
	t.Helper()
	s, err := g.Read(&Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	testos.Put(t, path, content, 0o644)
}
