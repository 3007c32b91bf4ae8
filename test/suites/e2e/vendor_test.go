package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
)

// kubeletDefaults are the kubelet's thresholds for bytes on disks.
var kubeletDefaults = map[string]string{"nodefs.available": "10%", "imagefs.available": "15%"}

// A vendor's plugin for the storage of the images, which are on a filesystem of their
// own: it was in charge of imagefs.available and never asked, since the threshold for
// writable layers was acted on. Every pod went, the cache stayed.
func TestAVendorOfTheImagesEmptiesItsCacheFirst(t *testing.T) {
	vendorOfImages(t, newSite(t, dedicated(debian)), "images")
}

// The same where images share the kubelet's filesystem.
func TestAVendorOfTheImagesWhereAllShareAFilesystem(t *testing.T) {
	vendorOfImages(t, newSite(t, shared(debian)), "node")
}

func vendorOfImages(t *testing.T, n *site, filesystem string) {
	binary := filepath.Join(t.TempDir(), "imagecache")
	goBuild(t, ".", binary, "./imagecache")
	cache := newCache(t, filepath.Join(n.Dir, filesystem))
	vendor(t, n, cache, binary, map[string]any{"config": map[string]any{"dir": cache.dir}, "capabilities": []string{"DAC_OVERRIDE"}}, "acme.example/empty-cache")
}

// What "evictctl plugins new --disk" writes, unmodified, on one filesystem for all with the
// kubelet's thresholds: the images' is met first, which its step is not listed for.
func TestTheScaffoldEmptiesItsCacheFirst(t *testing.T) {
	n := newSite(t, shared(debian))
	root, err := filepath.Abs("../../..")
	must(t, err)
	dir := filepath.Join(t.TempDir(), "cache-disk")
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "bin/evictctl"), "plugins", "new", "cache-disk", "--disk", "--sdk", root, "--dir", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	binary := filepath.Join(t.TempDir(), "cache-disk")
	goBuild(t, dir, binary, ".")
	cache := newCache(t, filepath.Join(n.Dir, "node"))
	vendor(t, n, cache, binary, map[string]any{
		"config":       map[string]any{"cacheDir": cache.dir, "minAge": "1h"},
		"capabilities": []string{"DAC_OVERRIDE"},
	}, "example.com/empty-cache")
}

// A filesystem that gives back what was deleted 8 s later, as thin or networked storage
// does: one pod goes, where one went in each second.
func TestAFilesystemThatFreesLate(t *testing.T) {
	const late = 8 * time.Second
	n := newSite(t, shared(debian))
	weight := newBallast(t, filepath.Join(n.Dir, "node"))
	n.start(t, map[string]any{"evictionHard": map[string]string{"nodefs.available": "10%"}})
	n.log.awaitPasses(t)
	n.log.chapter(t, "what the victim had is held for 8 s after its end:")
	pods := crowd(t, n.Stack, bytesOf, func(p *stack.Pod, units int64) {
		must(t, p.Exec(t.Context(), "main", bytesIn("/volume/data", units*mib)))
	})
	held := hold(t, pods)
	awaitStats(t, n.Runtime)
	weight.fillTo(t, bytesOf, part(t, weight.dir, 10)-20*mib)
	said := n.log.await(t, "pod finished")
	t.Logf("    freed %v after the end of %s", late, said.String("pod"))
	time.Sleep(late) // this is the storage's time, not evictd's
	if got := n.log.evicted(); len(got) != 1 {
		t.Errorf("evicted %v while the storage was freeing what the first had, want only that one", got)
	}
	held()
	n.log.awaitCalm(t)
	n.log.wantEvicted(t, pods["greedy"].Key())
}

// hold keeps the files of pods open, so that their space is not free before the
// returned function is called.
func hold(t *testing.T, pods map[string]*stack.Pod) (free func()) {
	t.Helper()
	var files []*os.File
	free = func() {
		for _, f := range files {
			_ = f.Close() // it was only read
		}
		files = nil
	}
	t.Cleanup(free)
	for _, p := range pods {
		f, err := os.Open(filepath.Join(p.EmptyDir("volume"), "data"))
		must(t, err)
		files = append(files, f)
	}
	return free
}

// vendor is the story of a plugin that has a cache on a filesystem which images are on:
// the cache is enough and no pod goes, then it is not and one pod does.
func vendor(t *testing.T, n *site, cache vendorCache, binary string, settings map[string]any, step string) {
	disk := filepath.Dir(cache.dir)
	weight := newBallast(t, disk)
	t.Cleanup(func() { clearAway(t, n, weight) })
	pods := crowd(t, n.Stack, bytesOf, func(p *stack.Pod, units int64) { must(t, p.Exec(t.Context(), "main", bytesIn("/data", units*mib))) })
	cache.fill(t, 60)
	n.start(t, map[string]any{"evictionHard": kubeletDefaults, "plugins": map[string]any{
		"disk":                diskSettings(n.Stack),
		filepath.Base(binary): settings,
	}}, binary)
	n.log.awaitPasses(t)
	awaitStats(t, n.Runtime)

	n.log.chapter(t, "15 % are no longer available, and the cache has more than is missing:")
	weight.fillTo(t, bytesOf, part(t, disk, 15)-20*mib)
	n.log.await(t, "reclaim was enough, no pod has to go")
	n.log.awaitCalm(t)
	n.log.wantEvicted(t)
	checkFirstStep(t, n.log.records(stepEnded), step)
	checkSteps(t, n.log.records(stepEnded), step)
	cache.checkEmpty(t)

	cache.fill(t, 10)
	n.log.chapter(t, "and again, when it has not:")
	weight.fillTo(t, bytesOf, part(t, disk, 15)-20*mib)
	n.log.awaitVictim(t, "imagefs.available", "greedy", pods)
	checkFirstStep(t, n.log.records(stepEnded), step)
	cache.checkEmpty(t)
}

// checkFirstStep wants a step to be the first of this chapter.
func checkFirstStep(t *testing.T, steps []evictd.Record, want string) {
	t.Helper()
	if len(steps) == 0 || steps[0].String("step") != want || steps[0].String("error") != "" {
		t.Errorf("steps %v, want %s first", stepsOf(steps), want)
	}
}

func stepsOf(records []evictd.Record) (steps []string) {
	for _, r := range records {
		steps = append(steps, fmt.Sprintf("%s by %s for %s", r.String("step"), r.String("by"), r.String("signal")))
	}
	return steps
}

// part is so many percent of a filesystem.
func part(t *testing.T, path string, percent int64) int64 {
	t.Helper()
	var s unix.Statfs_t
	must(t, unix.Statfs(path, &s))
	return int64(s.Blocks) * s.Bsize * percent / 100
}

// A vendorCache is a directory of files that nobody has used for hours.
type vendorCache struct{ dir string }

func newCache(t *testing.T, filesystem string) vendorCache {
	t.Helper()
	c := vendorCache{filepath.Join(filesystem, "cache")}
	must(t, os.MkdirAll(c.dir, 0o755))
	return c
}

func (c vendorCache) fill(t *testing.T, mibs int) {
	t.Helper()
	old := time.Now().Add(-2 * time.Hour)
	for i := range mibs {
		file := filepath.Join(c.dir, fmt.Sprint(i))
		writeFile(t, file, mib)
		must(t, os.Chtimes(file, old, old))
	}
}

func (c vendorCache) checkEmpty(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(c.dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%d files of the cache are left (%v), want none", len(left), err)
	}
}

// goBuild builds a program in a directory.
func goBuild(t *testing.T, dir, binary, program string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", binary, program)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", program, err, out)
	}
}
