package e2e_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
)

// On a node without a kubelet unused images go before the disk is short: as many as have
// to, none in a dry run, and what is in use stays however full it is.
func TestPeriodicImageGC(t *testing.T) {
	for _, e := range engines(t) {
		t.Run(e.name, func(t *testing.T) {
			n := newSite(t, shared(e))
			unused := []string{"localhost/e2e/unused-1:1", "localhost/e2e/unused-2:1", "localhost/e2e/unused-3:1"}
			used := "localhost/e2e/used:1"
			for _, name := range append([]string{used}, unused...) {
				image := stack.BusyboxImage(name, nil)
				image.FillerFiles, image.FillerBytes = 1, imageUnits*mib
				must(t, n.Import(t.Context(), image))
			}
			calm := run(t, n.Stack, sketch{name: "calm", image: used})
			run(t, n.Stack, sketch{name: "plain"}) // of the image that all others have

			disk := filepath.Join(n.Dir, "node")
			weight := newBallast(t, disk)
			var s unix.Statfs_t
			must(t, unix.Statfs(disk, &s))
			capacity := int64(s.Blocks) * s.Frsize
			weight.fillTo(t, bytesOf, capacity*95/1000)
			usedPercent := 100 - freeOn(t, disk, bytesOf)*100/capacity
			t.Logf("  the disk of %s is %d%% used", bytesOf.show(capacity), usedPercent)
			// An image has 30 of 800 MiB: one is enough for two percent.
			config := func(dryRun bool, high, low int64) map[string]any {
				return map[string]any{
					"dryRun": dryRun, "evictionHard": map[string]string{"nodefs.available": "1"},
					"plugins": map[string]any{"disk": map[string]any{"config": map[string]any{
						"imageMinimumGCAge": "0s", "containerLogsDir": filepath.Join(n.Dir, "containers"), "periodicImageGC": true,
						"imageGCHighThresholdPercent": high, "imageGCLowThresholdPercent": low,
					}}},
				}
			}
			check := func(want int) {
				t.Helper()
				_, _, images := contents(t, n.Stack)
				left := slices.DeleteFunc(slices.Clone(unused), func(name string) bool { return !slices.Contains(images, name) })
				if len(left) != want {
					t.Errorf("%q are left, want %d", left, want)
				}
				for _, name := range []string{used, stack.PodImage, stack.SandboxImage} {
					if !slices.Contains(images, name) {
						t.Errorf("the image %s is gone, and was in use", name)
					}
				}
				wantRunning(t, calm)
			}

			n.start(t, config(true, usedPercent, usedPercent-2))
			t.Logf("    in a dry run: %s", awaitDisk(t, &n.log, "dry run: 1 images"))
			check(3)
			n.stop(t)

			n.start(t, config(false, usedPercent, usedPercent-2))
			t.Logf("    for real: %s", awaitDisk(t, &n.log, "removed 1 images"))
			check(2)
			n.stop(t)

			n.start(t, config(false, 2, 1))
			t.Logf("    with too little to remove: %s", awaitDisk(t, &n.log, "FreeDiskSpaceFailed"))
			check(0)
			n.log.wantEvicted(t)
		})
	}
}

// awaitDisk waits until the disk plugin has logged something with a text in it.
func awaitDisk(t *testing.T, log *journal, text string) string {
	t.Helper()
	var found string
	eventually(t, fmt.Sprintf("the disk plugin says %q", text), func() (bool, error) {
		i := slices.IndexFunc(log.records("plugin log"), func(r evictd.Record) bool {
			found = fmt.Sprint(r.Attrs)
			return r.String("plugin") == "disk" && strings.Contains(found, text)
		})
		return i >= 0, nil
	})
	return found
}
