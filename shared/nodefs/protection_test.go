package nodefs

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// With memory.min on system.slice the kernel's OOM killer was first: MemAvailable counts cache that
// is not reclaimed, and a threshold below it is never met.
func TestProtectedCache(t *testing.T) {
	for name, c := range map[string]struct {
		cgroups map[string][3]string // memory.min, anon, active_file and inactive_file
		want    int64
	}{
		"nothing is protected":                       {map[string][3]string{"a": {"0", "10", "30"}}, 0},
		"all cache of a cgroup":                      {map[string][3]string{"a": {"200", "10", "30"}}, 60},
		"what anonymous memory leaves":               {map[string][3]string{"a": {"50", "20", "30"}}, 30},
		"nothing, all of it is anonymous":            {map[string][3]string{"a": {"50", "60", "30"}}, 0},
		"max":                                        {map[string][3]string{"a": {"max", "10", "30"}}, 60},
		"the cgroups below, not the slice as well":   {map[string][3]string{"a": {"150", "20", "100"}, "a/b": {"50", "10", "30"}, "a/c": {"100", "10", "20"}, "a/d": {"0", "0", "50"}}, 40 + 40},
		"a cgroup below as far as its parent":        {map[string][3]string{"a": {"30", "20", "100"}, "a/b": {"50", "10", "30"}}, 30},
		"not a cgroup below a parent without":        {map[string][3]string{"a": {"0", "20", "100"}, "a/b": {"50", "10", "30"}}, 0},
		"one that cannot be read beside one that is": {map[string][3]string{"a": {"50", "0", "20"}, "b": {"much", "0", "20"}}, 40},
	} {
		root := t.TempDir()
		for cgroup, figures := range c.cgroups {
			dir := "sys/fs/cgroup/" + cgroup + "/"
			write(t, root, dir+"memory.min", figures[0])
			write(t, root, dir+"memory.stat", fmt.Sprintf("anon %s\nfile_mapped 1\ninactive_file %s\nactive_file %[2]s\n", figures[1], figures[2]))
		}
		if got := ProtectedCache(Hierarchy{FS: FS{Root: root}, Version: V2, Dir: "/sys/fs/cgroup"}, "/", math.MaxInt64); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestProtectionOfLargestFigures(t *testing.T) {
	root, most := t.TempDir(), fmt.Sprint(math.MaxInt64)
	write(t, root, "sys/fs/cgroup/a/memory.min", most)
	write(t, root, "sys/fs/cgroup/a/memory.stat", strings.ReplaceAll("anon N\nfile_mapped N\ninactive_file N\nactive_file N\n", "N", most))
	got, err := ReadProtection(Hierarchy{FS: FS{Root: root}, Version: V2, Dir: "/sys/fs/cgroup"}, "a")
	if sum := got.Anon + got.Mapped + got.Cache + got.Min; err != nil || sum != 5<<60 {
		t.Errorf("%+v, %v, want sums without overflow", got, err)
	}
}

func TestCgroupOf(t *testing.T) {
	root := t.TempDir()
	for text, want := range map[string]string{
		"0::/system.slice/a.service\n":                  "/system.slice/a.service",
		"4:memory:/x\n1:name=systemd:/y\n0::/../../z\n": "/z",
		"4:memory:/x\n": "", "": "",
	} {
		write(t, root, "proc/7/cgroup", text)
		if got, err := CgroupOf(FS{Root: root}, 7); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := CgroupOf(FS{Root: root}, 8); !os.IsNotExist(err) {
		t.Errorf("%v of a process that is gone", err)
	}
}
