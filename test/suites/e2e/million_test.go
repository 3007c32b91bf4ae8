package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/child"
	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
)

const (
	filesPerDir  = 10_000
	inodes       = 1_100_000
	measureLimit = 5 * time.Second // the deadline of measuring, which no pass may exceed
	slowDisk     = 5 * time.Minute // limits are looked at once a minute where it takes long, and files counted by several measurements
	growth       = 24 * mib        // more memory than this is not flat
)

// crowdedDirs make a million files in make nightly, a fifth of that in the gate.
func crowdedDirs() int {
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		return 100
	}
	return 20
}

// A volume with a million files, and all that has ever led a walk astray: a symlink
// to its own directory, a FIFO, the machine's root bind-mounted, a file that grows.
func TestMillionFiles(t *testing.T) {
	n := newSite(t, stack.Options{
		Filesystems: []stack.Filesystem{{Path: "node", Type: "ext4", Bytes: 1200 * mib, Mkfs: []string{"-N", strconv.Itoa(inodes), "-O", "^has_journal"}}},
		KubeletRoot: "node/kubelet", PodLogs: "node/logs",
	})
	crowded := run(t, n.Stack, sketch{name: "crowded", emptyDirs: map[string]string{"volume": "1Gi"}})
	over := run(t, n.Stack, sketch{name: "over", emptyDirs: map[string]string{"volume": "5Mi"}})
	n.start(t, map[string]any{"evictionHard": map[string]string{"nodefs.inodesFree": "1"}})
	time.Sleep(2 * time.Second)
	before := residentMemory(t, n.agent.PID(), "disk")

	volume := crowded.EmptyDir("volume")
	began := time.Now()
	makeMillion(t, volume)
	t.Logf("  %d files made in %.1f s", crowdedDirs()*filesPerDir, time.Since(began).Seconds())
	fifo, touched := trap(t, volume)
	stopGrowing := grow(t, filepath.Join(volume, "growing"))

	n.log.chapter(t, "while the crowded volume is walked, another pod exceeds its limit:")
	cross(t, over, bytesIn("/volume/file", 6*mib))
	n.log.awaitWithin(t, slowDisk, "pod finished")
	n.log.wantEvicted(t, over.Key())
	time.Sleep(10 * time.Second) // rounds of measuring, whole ones among them
	stopGrowing()
	after := residentMemory(t, n.agent.PID(), "disk")
	t.Logf("    memory of the disk plugin: %.1f MiB before, %.1f MiB after", float64(before)/mib, float64(after)/mib)
	if after > before+growth {
		t.Errorf("the disk plugin grew by %d MiB", (after-before)/mib)
	}

	n.stop(t)
	checkPasses(t, n.log.since(0))
	if fifo() {
		t.Error("the FIFO was opened")
	}
	if touched() {
		t.Error("what is bind-mounted was read")
	}

	n.log.chapter(t, "then the node runs out of inodes:")
	want := du(t, "--inodes", volume)
	n.start(t, map[string]any{"evictionHard": map[string]string{"nodefs.inodesFree": strconv.Itoa(inodes - crowdedDirs()*filesPerDir/2)}, "dryRun": true})
	// The container's log is a file, too, and no part of the volume. A slow disk's files are not all counted in time for the
	// first ranking: the walk goes on where it ended.
	counted := fmt.Sprintf("%s (uses %d inodes", crowded.Key(), want+1)
	eventuallyWithin(t, slowDisk, counted, func() (bool, error) {
		rankings := n.log.records("evicting pod")
		return slices.ContainsFunc(rankings, func(r evictd.Record) bool { return strings.Contains(r.String("ranking"), counted) }), nil
	})
	for _, pod := range n.log.evicted() {
		if pod != crowded.Key() {
			t.Errorf("evicted %s, want %s", pod, crowded.Key())
		}
	}
	t.Logf("    du counts %d inodes", want)
	n.stop(t)
	checkPasses(t, n.log.since(0))
}

// makeMillion makes empty files, two directories at a time.
func makeMillion(t *testing.T, volume string) {
	t.Helper()
	fill := func(i int) error {
		dir := filepath.Join(volume, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for f := range filesPerDir {
			if err := unix.Mknodat(fd, strconv.Itoa(f), unix.S_IFREG|0o644, 0); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for w := range errs {
		wg.Go(func() {
			for i := w; i < crowdedDirs() && errs[w] == nil; i += len(errs) {
				errs[w] = fill(i)
			}
		})
	}
	wg.Wait()
	must(t, errs...)
}

// trap sets what must not be followed, opened or entered. The functions tell
// whether it was.
func trap(t *testing.T, volume string) (opened, entered func() bool) {
	t.Helper()
	fifo, root := filepath.Join(volume, "fifo"), filepath.Join(volume, "root")
	must(t, os.Symlink(".", filepath.Join(volume, "loop")), os.Symlink(volume, filepath.Join(volume, "self")),
		unix.Mkfifo(fifo, 0o644), os.Mkdir(root, 0o755))
	// A filesystem of its own tells whether it was read: by the time of its last access.
	bait := t.TempDir()
	must(t, unix.Mount("bait", bait, "tmpfs", unix.MS_STRICTATIME, ""), os.WriteFile(filepath.Join(bait, "file"), make([]byte, mib), 0o644))
	t.Cleanup(func() { must(t, unix.Unmount(bait, unix.MNT_DETACH)) })
	// Read-only, so that no mistake of a test can remove the machine.
	must(t, unix.Mount("/", root, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(root, unix.MNT_DETACH)) })
	must(t, unix.Mount("", root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	inside := filepath.Join(volume, "bait")
	must(t, os.Mkdir(inside, 0o755), unix.Mount(bait, inside, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(inside, unix.MNT_DETACH)) })
	accessed := accessTime(t, bait)
	return func() bool {
			// Opening to write succeeds at once only if somebody reads.
			fd, err := unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK, 0)
			if err == nil {
				_ = unix.Close(fd)
			}
			return err != unix.ENXIO
		}, func() bool {
			return accessTime(t, bait) != accessed
		}
}

func accessTime(t *testing.T, path string) unix.Timespec {
	t.Helper()
	var s unix.Stat_t
	must(t, unix.Stat(path, &s))
	return s.Atim
}

// grow appends to a file until stop is called.
func grow(t *testing.T, path string) (stop func()) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer f.Close()
		for chunk := make([]byte, 64<<10); ; {
			if _, err := f.Write(chunk); err != nil {
				return
			}
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}

// checkPasses looks at how long passes took, by the log.
func checkPasses(t *testing.T, records []evictd.Record) {
	t.Helper()
	var longest float64
	passes := 0
	for _, r := range records {
		if took, ok := r.Attrs["tookSeconds"].(float64); ok && r.Msg == "pass" {
			longest, passes = max(longest, took), passes+1
		}
	}
	t.Logf("    %d passes, the longest took %.0f ms", passes, longest*1e3)
	if longest > measureLimit.Seconds() || passes == 0 {
		t.Errorf("%d passes, the longest took %.1f s, want all of them within %v", passes, longest, measureLimit)
	}
}

// residentMemory returns the resident memory of one of evictd's plugins, in bytes.
func residentMemory(t *testing.T, agent int, plugin string) int64 {
	t.Helper()
	children, err := evictd.Children(agent)
	must(t, err)
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", children[plugin]))
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			must(t, err)
			return kib << 10
		}
	}
	t.Fatalf("no VmRSS of %s", plugin)
	return 0
}

// du returns the count of du on one filesystem: bytes with -B1, inodes with --inodes.
func du(t *testing.T, unit, dir string) int64 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "du", "-s", "-x", unit, dir)
	var out strings.Builder
	cmd.Stdout = &out
	must(t, child.Start(cmd))
	must(t, cmd.Wait())
	digits, _, _ := strings.Cut(out.String(), "\t")
	count, err := strconv.ParseInt(digits, 10, 64)
	must(t, err)
	return count
}
