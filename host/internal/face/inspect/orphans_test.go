package inspect

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// 36 MiB in pods/<UID of no pod> made small pods go, and check was silent.
func testDirectoriesOfNoPod(t *testing.T) {
	const pods = "/var/lib/kubelet/pods/"
	for name, c := range map[string]struct {
		dirs   map[string]int // shares of the disk in percent, of a sparse file below 0
		linked bool
		change func(*config.Config)
		want   string
	}{
		"one":               {dirs: map[string]int{"gone": 36, "a": 10}, want: "1 directories belong to no pod, and no eviction frees them (the largest: pods/gone 36 MiB)"},
		"the largest three": {dirs: map[string]int{"g1": 2, "g2": 8, "g3": 4, "g4": 6}, want: "4 directories belong to no pod, and no eviction frees them (the largest: pods/g2 8 MiB, pods/g4 6 MiB, pods/g3 4 MiB)"},
		"small ones":        {dirs: map[string]int{"gone": 0}},
		"of an ended pod":   {dirs: map[string]int{"ended": 36}},
		"sparse":            {dirs: map[string]int{"gone": -36}},
		"linked":            {dirs: map[string]int{"gone": 36}, linked: true, want: "1 directories belong to no pod, and no eviction frees them (the largest: pods/gone 36 MiB)"},
		"disks do not count": {dirs: map[string]int{"gone": 36}, change: func(c *config.Config) {
			c.EvictionHard = map[string]string{"memory.available": "1Gi"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, s := places(t)
			s.Add(fakecri.Pod{UID: "a", Namespace: "ns", Name: "a", Containers: []fakecri.Container{{Name: "c"}}})
			s.Add(fakecri.Pod{UID: "ended", Namespace: "ns", Name: "ended", NotReady: true})
			kubelets := cfg.RootDir + "/var/lib/kubelet"
			must(t, unix.Mount("disk", kubelets, "tmpfs", 0, "size=100m"))
			t.Cleanup(func() { _ = unix.Unmount(kubelets, unix.MNT_DETACH) })
			for uid, mib := range c.dirs {
				dir := cfg.RootDir + pods + uid + "/volumes/kubernetes.io~empty-dir/v"
				testos.MkdirAll(t, dir, 0o755)
				testos.WriteFile(t, dir+"/file", strings.Repeat("x", max(mib, 0)<<20), 0o600)
				if mib < 0 {
					must(t, os.Truncate(dir+"/file", int64(-mib)<<20))
				}
				if c.linked {
					must(t, os.Link(dir+"/file", dir+"/again"))
					must(t, os.Symlink("/", dir+"/outside"))
				}
			}
			if c.change != nil {
				c.change(cfg)
			}
			var want []string
			if c.want != "" {
				want = []string{fmt.Sprintf("warning kubeletRootDir: %q: %s; want them removed when nothing uses them", cfg.KubeletRootDir, c.want)}
			}
			if got := found(t, cfg, nil, "directories of no pod"); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
