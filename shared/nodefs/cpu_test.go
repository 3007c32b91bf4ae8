package nodefs

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

func TestTheLeastShareOfTheCPUIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		membership string
		files      map[string]string
		file       string
		shares     int64
		err        string
	}{
		"version 1, a pod with a small request": {
			"8:pids:/x\n1:cpu,cpuacct:/kubepods/burstable/pod1/c\n0::/\n",
			map[string]string{"cpu/kubepods/cpu.shares": "2048", "cpu/kubepods/burstable/cpu.shares": "512", "cpu/kubepods/burstable/pod1/cpu.shares": "10", "cpu/kubepods/burstable/pod1/c/cpu.shares": "10\n"},
			"cpu/kubepods/burstable/pod1/c/cpu.shares", 10, "",
		},
		"version 1, outside of pods": {
			"1:cpu:/system.slice/evictd.service\n",
			map[string]string{"cpu/system.slice/cpu.shares": "1024", "cpu/system.slice/evictd.service/cpu.shares": "4096"},
			"cpu/system.slice/cpu.shares", 1024, "",
		},
		"version 2, BestEffort": {
			"0::/kubepods.slice/kubepods-besteffort.slice/p.slice\n",
			map[string]string{"kubepods.slice/cpu.weight": "79", "kubepods.slice/kubepods-besteffort.slice/cpu.weight": "1", "kubepods.slice/kubepods-besteffort.slice/p.slice/cpu.weight": "1"},
			"kubepods.slice/kubepods-besteffort.slice/p.slice/cpu.weight", 2, "",
		},
		"version 2, a unit":                 {"0::/system.slice/evictd.service/host\n", map[string]string{"system.slice/cpu.weight": "100"}, "system.slice/cpu.weight", 1024, ""},
		"version 2, a request of a CPU":     {"0::/kubepods.slice/p.slice\n", map[string]string{"kubepods.slice/p.slice/cpu.weight": "39"}, "kubepods.slice/p.slice/cpu.weight", 998, ""},
		"a cgroup namespace":                {"0::/\n", nil, "", 0, "no cgroup of this process"},
		"no number":                         {"0::/a\n", map[string]string{"a/cpu.weight": "much"}, "", 0, "want a number"},
		"what leads out of the hierarchies": {"0::/../../../etc\n", nil, "", 0, "no cgroup of this process"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.files {
				file = filepath.Join(root, "sys/fs/cgroup", file)
				testos.Put(t, file, text, 0o600)
			}
			got, err := cpuShare(FS{Root: root}, c.membership)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%+v, %v; want %q", got, err, c.err)
				}
				return
			}
			if want := (CPUShare{filepath.Join(root, "sys/fs/cgroup", c.file), c.shares}); err != nil || got != want {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
		})
	}
}
