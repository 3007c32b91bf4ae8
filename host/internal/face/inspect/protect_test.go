package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// With pages of the runtime and of evictd protected, a threshold of 5 % of 640 MiB was never met.
func TestCheckComparesThresholdsWithTheProtectedCache(t *testing.T) {
	const advice = "memory.min protects too little (system.slice 0 of 108 MiB, containerd.service 0 of 76 MiB, evictd.service 0 of 32 MiB): on a node that thrashes their pages go, and the kernel may kill first; evictctl protect-node shows drop-ins of systemd, --write writes them"
	for name, c := range map[string]struct {
		protected map[string]int // memory.min, in MiB
		threshold string
		cgroup    string
		advice    string
		warning   string
	}{
		"nothing is protected": {nil, "5%", "/system.slice/containerd.service", advice, ""},
		"a threshold below": {
			map[string]int{"": 184, "containerd.service": 120, "evictd.service": 64},
			"5%", "/system.slice/containerd.service", "",
			`evictionHard["memory.available"]: "5%": memory.min of cgroups protects 100 MiB of page cache, which count as available and are not reclaimed: the threshold may never be met; want more than 100Mi`,
		},
		"a threshold above": {map[string]int{"": 184, "containerd.service": 120, "evictd.service": 64}, "101Mi", "/system.slice/containerd.service", "", ""},
		"the slice above was forgotten": {
			map[string]int{"containerd.service": 120, "evictd.service": 64},
			"5%", "/system.slice/containerd.service",
			strings.Replace(advice, ", containerd.service 0 of 76 MiB, evictd.service 0 of 32 MiB", "", 1), "",
		},
		"a runtime that uses more than can be protected": {map[string]int{"": 232, "containerd.service": 168, "evictd.service": 64}, "200Mi", "/system.slice/containerd.service", "", ""},
		"a runtime that systemd has not started":         {nil, "5%", "/user.slice/session-1.scope", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root, runtime := t.TempDir(), fakecri.Start(t)
			if err := os.CopyFS(root, os.DirFS("../../ground/systemd/testdata/node")); err != nil {
				t.Fatal(err)
			}
			files := map[string]string{fmt.Sprintf("proc/%d/cgroup", os.Getpid()): "0::" + c.cgroup + "\n"}
			if strings.Contains(name, "more than") {
				files["sys/fs/cgroup/system.slice/containerd.service/memory.stat"] = "anon 314572800\nfile_mapped 0\ninactive_file 0\nactive_file 0\n"
			}
			for unit, mib := range c.protected {
				files[filepath.Join("sys/fs/cgroup/system.slice", unit, "memory.min")] = fmt.Sprintln(mib << 20)
			}
			for name, text := range files {
				name = filepath.Join(root, name)
				testos.Put(t, name, text, 0o600)
			}
			cfg := config.Default()
			cfg.RootDir, cfg.RuntimeEndpoint = root, runtime.Endpoint()
			cfg.EvictionHard = map[string]string{"memory.available": c.threshold}
			all := run(t.Context(), Options{Config: &cfg, left: new(hang.Left)}, func(p probe) bool { return strings.HasPrefix(p.name, "protected ") })
			if diff := cmp.Diff([]string{c.advice, c.warning}, []string{strings.Join(all.Texts(Advice), "\n"), strings.Join(all.Texts(Warning), "\n")}); diff != "" || len(all.Texts(Fatal, Error)) > 0 {
				t.Errorf("%v (-want +got):\n%s", all.Texts(Fatal, Error), diff)
			}
		})
	}
}
