package gc_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

const logBytes = 64 << 10

// rotating has a node with log GC, whose disk has as much more free as is removed below its logs.
func rotating(t *testing.T) *node {
	t.Helper()
	n := newNode(t, gc.Settings{})
	n.collectLogs(func(string) (nodefs.FilesystemSample, error) {
		used, files := int64(0), int64(0)
		err := filepath.WalkDir(n.logs, func(path string, d fs.DirEntry, err error) error {
			var st unix.Stat_t
			if err == nil && d.Type().IsRegular() && unix.Lstat(path, &st) == nil {
				used, files = used+st.Blocks*512, files+1
			}
			return err
		})
		return nodefs.FilesystemSample{FreeBytes: 1<<30 - used, InodesFree: 1<<20 - files}, err
	})
	return n
}

func (n *node) collectLogs(statfs func(string) (nodefs.FilesystemSample, error)) {
	n.collector = gc.New(gc.Options{
		Client:     &cri.Client{Runtime: n.Client(), Images: n.ImageClient()},
		PodLogsDir: n.logs, KubeletRootDir: n.logs, Settings: gc.Settings{LogGC: true}, Statfs: statfs,
	})
}

// run adds a pod with a running container "c" that was restarted once, and the log files named.
func (n *node) run(t *testing.T, uid string, files ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(n.logDir(uid), "c")
	testos.MkdirAll(t, dir, 0o755)
	for _, name := range files {
		write(t, filepath.Join(dir, name), logBytes)
	}
	n.Add(fakecri.Pod{UID: uid, Namespace: "ns", Name: "pod-" + uid, Containers: []fakecri.Container{{Name: "c", Attempt: 1, LogPath: filepath.Join(dir, "1.log")}}})
	return dir
}

func (n *node) rotatedGo(t *testing.T, want eviction.Reclaimed) eviction.Reclaimed {
	t.Helper()
	n.progress = nil
	released, err := n.collector.Logs(t.Context(), want, n.note)
	if err != nil {
		t.Error(err)
	}
	return released
}

func wantFiles(t *testing.T, dir, want string) {
	t.Helper()
	if got := strings.Join(names(t, dir), " "); got != want {
		t.Errorf("in %s %q is left, want %q", filepath.Base(filepath.Dir(dir)), got, want)
	}
}

func TestTheOldestRotatedLogsOfTheNodeGoUntilEnoughIsFree(t *testing.T) {
	for name, c := range map[string]struct {
		want        eviction.Reclaimed
		p, q        string
		says        string
		bytes, gone int64
	}{
		"a byte":              {eviction.Reclaimed{Bytes: 1}, "1.log 1.log.20260103-000000.gz 1.log.20260105-000000", "1.log 1.log.20260102-000000.gz 1.log.20260104-000000", "removed 1 rotated logs of 1 containers, 64.0 KiB; kept 4 newer", logBytes, 1},
		"bytes of three":      {eviction.Reclaimed{Bytes: 2*logBytes + 1}, "1.log 1.log.20260105-000000", "1.log 1.log.20260104-000000", "removed 3 rotated logs of 2 containers, 192.0 KiB; kept 2 newer", 3 * logBytes, 3},
		"inodes":              {eviction.Reclaimed{Inodes: 2}, "1.log 1.log.20260103-000000.gz 1.log.20260105-000000", "1.log 1.log.20260104-000000", "removed 2 rotated logs of 2 containers, 128.0 KiB; kept 3 newer", 2 * logBytes, 2},
		"more than there is":  {eviction.Reclaimed{Bytes: 1 << 40}, "1.log", "1.log", "removed 5 rotated logs of 2 containers, 320.0 KiB; kept 0 newer", 5 * logBytes, 5},
		"an amount not known": {eviction.Reclaimed{}, "1.log", "1.log", "removed 5 rotated logs of 2 containers, 320.0 KiB; kept 0 newer", 5 * logBytes, 5},
	} {
		t.Run(name, func(t *testing.T) {
			n := rotating(t)
			p := n.run(t, "p", "1.log", "1.log.20260101-000000.gz", "1.log.20260103-000000.gz", "1.log.20260105-000000")
			q := n.run(t, "q", "1.log", "1.log.20260102-000000.gz", "1.log.20260104-000000")
			released := n.rotatedGo(t, c.want)
			wantFiles(t, p, c.p)
			wantFiles(t, q, c.q)
			wantIn(t, "message", released.Message, c.says)
			if released.Bytes != c.bytes || released.Inodes != c.gone || len(n.progress) == 0 || n.progress[len(n.progress)-1].Bytes != c.bytes {
				t.Errorf("freed %+v, progress %+v, want %d bytes and %d inodes", released, n.progress, c.bytes, c.gone)
			}
		})
	}
}

func TestWithLogGCOffNoLogGoes(t *testing.T) {
	n := newNode(t, gc.Settings{})
	dir := n.run(t, "p", "1.log", "1.log.20260101-000000")
	if _, err := n.collector.Logs(t.Context(), eviction.Reclaimed{}, n.note); !errors.Is(err, eviction.ErrUnsupported) {
		t.Errorf("error %v, want %v", err, eviction.ErrUnsupported)
	}
	wantFiles(t, dir, "1.log 1.log.20260101-000000")
	n.collector.Apply(gc.Settings{LogGC: true}) // as a reload does
	n.collector.KubeletRootDir = n.logs
	n.rotatedGo(t, eviction.Reclaimed{})
	wantFiles(t, dir, "1.log")
}

// Of the files beside a log only those go that the kubelet has rotated and nothing writes.
func TestOnlyFilesOfTheKubeletsRotationGo(t *testing.T) {
	n := rotating(t)
	all := []string{
		"1.log", "1.log.20260101-000000", "1.log.20260102-000000.gz", // the last two go
		"0.log", "0.log.20260101-000000", "0.log.20260101-000000.gz", // of the former instance: container GC's
		"2.log.20260101-000000", "11.log.20260101-000000",
		"1.log.20260103-000000", "1.log.20260103-000000.tmp", // being compressed
		"1.log.20260104-000000", "1.log.20260104-000000.gz", // compressed; the kubelet removes the first and the second goes
		"1.log.2026", "1.log.20260101-000000.zst", "1.log.20260101-000000.gz.tmp", "1.log.bak", "x1.log.20260101-000000", "1.log-20260101-000000",
	}
	dir := n.run(t, "p", all...)
	testos.Mkdir(t, filepath.Join(dir, "1.log.20260105-000000"), 0o755)
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, logBytes)
	link(t, outside, filepath.Join(dir, "1.log.20260106-000000"))
	if err := os.Link(outside, filepath.Join(dir, "1.log.20260107-000000")); err != nil {
		t.Fatal(err)
	}
	released := n.rotatedGo(t, eviction.Reclaimed{})
	wantFiles(t, dir, "0.log 0.log.20260101-000000 0.log.20260101-000000.gz 1.log 1.log-20260101-000000 1.log.2026 1.log.20260101-000000.gz.tmp 1.log.20260101-000000.zst"+
		" 1.log.20260103-000000 1.log.20260103-000000.tmp 1.log.20260104-000000 1.log.20260105-000000 1.log.20260106-000000 1.log.20260107-000000 1.log.bak"+
		" 11.log.20260101-000000 2.log.20260101-000000 x1.log.20260101-000000")
	wantIn(t, "message", released.Message, "removed 3 rotated logs of 1 containers", "5 that are being compressed or have another link")
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

// Between its two steps of a rotation the kubelet may rename the log back, and the runtime still
// writes it.
func TestALogThatIsWrittenStaysWhateverItsName(t *testing.T) {
	n := rotating(t)
	dir := n.run(t, "p", "1.log.20260101-000000.gz", "1.log.20260102-000000")
	n.rotatedGo(t, eviction.Reclaimed{})
	wantFiles(t, dir, "1.log.20260101-000000.gz 1.log.20260102-000000")
	link(t, "1.log.20260102-000000", filepath.Join(dir, "1.log")) // not a log that a runtime has opened
	n.rotatedGo(t, eviction.Reclaimed{})
	wantFiles(t, dir, "1.log 1.log.20260101-000000.gz 1.log.20260102-000000")
	testos.Remove(t, filepath.Join(dir, "1.log"))
	write(t, filepath.Join(dir, "1.log"), 1)
	n.rotatedGo(t, eviction.Reclaimed{})
	wantFiles(t, dir, "1.log")
}

func TestOnlyLogsOfRunningContainersGo(t *testing.T) {
	n := rotating(t)
	n.pod(t, "p", true, "runs", "exited:exited", "lost:lost", "created:created")
	n.rotatedGo(t, eviction.Reclaimed{})
	for i, name := range []string{"runs", "exited", "lost", "created"} {
		want := fmt.Sprintf("%d.log", i)
		if name != "runs" {
			want += fmt.Sprintf(" %d.log.20260101-000000", i)
		}
		wantFiles(t, filepath.Join(n.logDir("p"), name), want)
	}
}

// A pod with a hostPath volume writes what it likes among the logs, and a container may be said to
// log anywhere.
func TestNoRotatedLogOutsideTheLogsGoes(t *testing.T) {
	n := rotating(t)
	outside := t.TempDir()
	for _, dir := range []string{filepath.Join(outside, "c"), filepath.Join(outside, "ns_p_p", "c"), filepath.Join(n.logs, "ns_other_other", "c")} {
		for _, name := range []string{"0.log", "0.log.20260101-000000"} {
			write(t, filepath.Join(dir, name), logBytes)
		}
	}
	link(t, outside, filepath.Join(n.logs, "ns_0_0"))
	testos.MkdirAll(t, filepath.Join(n.logs, "ns_1_1"), 0o755)
	link(t, filepath.Join(outside, "c"), filepath.Join(n.logs, "ns_1_1", "c"))
	for i, path := range []string{
		filepath.Join(n.logs, "ns_0_0/c/0.log"), filepath.Join(n.logs, "ns_1_1/c/0.log"), // behind a link
		filepath.Join(n.logs, "ns_other_other/c/0.log"), filepath.Join(outside, "ns_p_p/c/0.log"), filepath.Join(n.logs, "../"+filepath.Base(outside)+"/c/0.log"), "", "/", n.logs,
	} {
		n.Add(fakecri.Pod{UID: fmt.Sprint(i), Namespace: "ns", Name: fmt.Sprint(i), Containers: []fakecri.Container{{Name: "c", LogPath: path}}})
	}
	released, err := n.collector.Logs(t.Context(), eviction.Reclaimed{}, n.note)
	if err == nil || strings.Count(err.Error(), "look for rotated logs") != 2 {
		t.Errorf("error %v, want two about the directories that are links", err)
	}
	wantIn(t, "message", released.Message, "removed 0 rotated logs")
	for _, dir := range []string{filepath.Join(outside, "c"), filepath.Join(outside, "ns_p_p", "c"), filepath.Join(n.logs, "ns_other_other", "c")} {
		wantFiles(t, dir, "0.log 0.log.20260101-000000")
	}
}

func TestLogsOnAnotherFilesystemThanTheKubeletsStay(t *testing.T) {
	n := rotating(t)
	n.collector.KubeletRootDir = "/proc"
	dir := n.run(t, "p", "1.log", "1.log.20260101-000000")
	released := n.rotatedGo(t, eviction.Reclaimed{})
	wantFiles(t, dir, "1.log 1.log.20260101-000000")
	wantIn(t, "message", released.Message, "removed nothing: podLogsDir "+n.logs+" is not on the filesystem of kubeletRootDir /proc")
}

// The space of a removed file comes when the last program closes it, or when the filesystem gets
// round to it.
func TestASpaceThatComesLateCostsNoOtherLogAndOneThatNeverComesDoes(t *testing.T) {
	for name, c := range map[string]struct {
		comes time.Duration // of a file after its removal
		held  string        // the file that frees nothing
		left  string
		took  time.Duration
	}{
		"at once":                      {0, "", "1.log 1.log.20260102-000000 1.log.20260103-000000", 0},
		"late":                         {2 * time.Second, "", "1.log 1.log.20260102-000000 1.log.20260103-000000", 2 * time.Second},
		"never: a shipper has it open": {0, "1.log.20260101-000000", "1.log 1.log.20260103-000000", 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, gc.Settings{})
				files := []string{"1.log.20260101-000000", "1.log.20260102-000000", "1.log.20260103-000000"}
				dir := n.run(t, "p", append(files, "1.log")...)
				gone := map[string]time.Time{}
				n.collectLogs(func(string) (nodefs.FilesystemSample, error) {
					free := int64(0)
					for _, f := range files {
						if _, err := os.Stat(filepath.Join(dir, f)); err == nil || f == c.held {
							continue
						}
						if gone[f].IsZero() {
							gone[f] = time.Now()
						}
						if time.Since(gone[f]) >= c.comes {
							free += logBytes
						}
					}
					return nodefs.FilesystemSample{FreeBytes: free}, nil
				})
				began := time.Now()
				released := n.rotatedGo(t, eviction.Reclaimed{Bytes: logBytes})
				wantFiles(t, dir, c.left)
				if took := time.Since(began); took != c.took || released.Bytes != logBytes {
					t.Errorf("took %v, freed %+v, want %v and %d bytes", took, released, c.took, logBytes)
				}
			})
		})
	}
}

// Other programs write and remove meanwhile: what the step is credited with is between nothing and
// the size of the files.
func TestLogGCClaimsNoSpaceOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ others, want int64 }{
		"others free more":       {others: 1 << 30, want: logBytes},
		"others write more":      {others: -1 << 30, want: 0},
		"others write some back": {others: -1000, want: logBytes - 1000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, gc.Settings{})
				dir := n.run(t, "p", "1.log", "1.log.20260101-000000")
				n.collectLogs(func(string) (nodefs.FilesystemSample, error) {
					if len(names(t, dir)) == 2 {
						return nodefs.FilesystemSample{FreeBytes: 1 << 40}, nil
					}
					return nodefs.FilesystemSample{FreeBytes: 1<<40 + logBytes + c.others}, nil
				})
				if released := n.rotatedGo(t, eviction.Reclaimed{Bytes: logBytes}); released.Bytes != c.want || released.Inodes != 0 {
					t.Errorf("freed %+v, want %d bytes", released, c.want)
				}
			})
		})
	}
}

// Names of the node are below its root, also behind absolute links.
func TestRotatedLogsAreBelowTheNodesRoot(t *testing.T) {
	n := rotating(t)
	root := t.TempDir()
	here := n.run(t, "p", "1.log", "1.log.20260101-000000")
	testos.MkdirAll(t, filepath.Join(root, filepath.Dir(n.logs)), 0o755)
	link(t, "/disk/pods", filepath.Join(root, n.logs))
	there := filepath.Join(root, "disk/pods", filepath.Base(n.logDir("p")), "c")
	for _, name := range []string{"1.log", "1.log.20260101-000000"} {
		write(t, filepath.Join(there, name), logBytes)
	}
	n.collector.Root = nodefs.FS{Root: root}
	n.rotatedGo(t, eviction.Reclaimed{})
	wantFiles(t, here, "1.log 1.log.20260101-000000")
	wantFiles(t, there, "1.log")
}

// A container that ends, or a runtime that hangs, costs its own logs' removal, not the step.
func TestLogGCEndsWithARuntimeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rotating(t)
		dir := n.run(t, "p", "1.log", "1.log.20260101-000000")
		n.run(t, "q")
		n.Inject(fakecri.ContainerStatus, fakecri.Fault{Hang: true})
		began := time.Now()
		released, err := n.collector.Logs(t.Context(), eviction.Reclaimed{}, n.note)
		if err == nil || !strings.Contains(err.Error(), "did not answer") || released.Bytes != 0 || time.Since(began) > 25*time.Second {
			t.Errorf("freed %+v, error %v after %v", released, err, time.Since(began))
		}
		wantFiles(t, dir, "1.log 1.log.20260101-000000")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := n.collector.Logs(ctx, eviction.Reclaimed{}, n.note); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
	})
}

// A real filesystem: a log that a program has open frees nothing, so the next one goes too.
func TestLogGCOnARealDisk(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	const mib = 1 << 20
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=16m,nr_inodes=200"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	n := newNode(t, gc.Settings{})
	n.logs = filepath.Join(disk, "pods")
	n.collectLogs(nil)
	dir := n.run(t, "p", "1.log")
	for i := range 5 {
		write(t, filepath.Join(dir, fmt.Sprintf("1.log.2026010%d-000000", i+1)), 2*mib)
	}
	open, err := os.Open(filepath.Join(dir, "1.log.20260101-000000"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	released := n.rotatedGo(t, eviction.Reclaimed{Bytes: 3 * mib})
	wantFiles(t, dir, "1.log 1.log.20260104-000000 1.log.20260105-000000")
	if released.Bytes != 4*mib || released.Inodes != 2 {
		t.Errorf("freed %+v, want 4 MiB and 2 inodes", released)
	}
	wantIn(t, "message", released.Message, "removed 3 rotated logs of 1 containers, 6.0 MiB; kept 2 newer", fmt.Sprintf("free on %s: %+d bytes", n.logs, 4*mib))
}
