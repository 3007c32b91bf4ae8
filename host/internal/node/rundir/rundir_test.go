package rundir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// testClock is a machine whose clocks the test moves, nil is that of the test.
type testClock struct{ moment }

func (c *testClock) now() (moment, error) {
	if c == nil {
		return systemNow()
	}
	if c.bootID == "" {
		return moment{}, errors.New("no clock")
	}
	return c.moment, nil
}

// pass lets time go by on all clocks.
func (c *testClock) pass(d time.Duration) {
	c.wall, c.bootNanos = c.wall.Add(d), c.bootNanos+int64(d)
}

func newClock() *testClock {
	return &testClock{moment{wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), bootNanos: int64(time.Hour), bootID: "boot-1"}}
}

func mustOpen(t *testing.T, path string, c *testClock) *Dir {
	t.Helper()
	d, err := open(path, c.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func mustLoad(t *testing.T, d *Dir) loop.Restored {
	t.Helper()
	s, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "a", "run") }

var aKill = victim.Kill{
	UID: "0b1a9f3e-1111-2222-3333-444455556666", Namespace: "shop", Name: "cart", Signal: eviction.MemoryAvailable, GraceSeconds: 30,
	Message: "The node was low on resource: memory. ", SandboxIDs: []string{"s"}, ContainerIDs: []string{"c1", "c2"},
}

func TestOpenMakesAPrivateDirectory(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, newClock())
	for _, p := range []string{path, d.Plugins()} {
		info, err := os.Stat(p)
		if err != nil || info.Mode() != os.ModeDir|0o711 {
			t.Errorf("%s: %v, %v, want a directory of mode 0711", p, info.Mode(), err)
		}
	}
	if info, err := os.Stat(d.kills()); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%s: %v, %v, want a directory of mode 0700", d.kills(), info.Mode(), err)
	}
	if d.Path() != path {
		t.Errorf("path %s, want %s", d.Path(), path)
	}
}

func TestOpenRefusesWhatIsNotItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"others may look in": {make: func(p string) error { return os.Mkdir(p, 0o755) }, want: "has mode 0755, want 0700 or 0711"},
		"others may write":   {make: func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o777)) }, want: "has mode 0777, want 0700 or 0711"},
		"it is a file":       {make: func(p string) error { return os.WriteFile(p, nil, 0o700) }, want: "is not a directory"},
		"it is a link":       {make: func(p string) error { return os.Symlink(filepath.Dir(p), p) }, want: "is a symbolic link"},
		"its parent is a file": {make: func(p string) error {
			return errors.Join(os.Remove(filepath.Dir(p)), os.WriteFile(filepath.Dir(p), nil, 0o600))
		}, want: "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "parent", "run")
			if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), c.make(path)); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), filepath.Dir(path)) {
				t.Errorf("Open: %v, want %q and the path", err, c.want)
			}
		})
	}
}

func TestOpenRefusesADirectoryOfAnotherUser(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs root: run make test")
	}
	if os.Geteuid() != 0 {
		t.Fatal("EVICTD_TEST_ROOT is set and this is not root")
	}
	path := newPath(t)
	if err := errors.Join(os.MkdirAll(path, 0o700), os.Chown(path, 4242, -1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "belongs to uid 4242, want uid 0") {
		t.Errorf("Open: %v", err)
	}
}

func TestASecondEvictdIsRefusedByName(t *testing.T) {
	path := newPath(t)
	first := mustOpen(t, path, newClock())
	_, err := Open(path)
	for _, want := range []string{path, fmt.Sprintf("another evictd, pid %d", os.Getpid()), "stop it, or give this evictd a run directory of its own"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("second Open: %v, want %q in it", err, want)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path, newClock())
}

// A removed run directory was not noticed: plugins never started again.
func TestARunDirectoryThatWasRemovedIsReported(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"removed":              os.RemoveAll,
		"moved":                func(path string) error { return os.Rename(path, path+".old") },
		"emptied":              func(path string) error { return os.RemoveAll(filepath.Join(path, pluginsName)) },
		"its lock was removed": func(path string) error { return os.Remove(filepath.Join(path, lockName)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			d := mustOpen(t, path, newClock())
			if err := d.Check(); err != nil {
				t.Fatalf("Check: %v of one that is there", err)
			}
			if err := remove(path); err != nil {
				t.Fatal(err)
			}
			if err := d.Check(); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Check: %v, want that it is gone", err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			again := mustOpen(t, path, newClock()) // the successor makes it
			if err := errors.Join(again.Check(), again.SaveKill(aKill)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAKilledHolderLeavesNothingBehind(t *testing.T) {
	if path := os.Getenv("RUNDIR_HOLD"); path != "" {
		hold(path)
	}
	path := newPath(t)
	holder := exec.Command(os.Args[0], "-test.run", "^TestAKilledHolderLeavesNothingBehind$")
	holder.Env = append(os.Environ(), "RUNDIR_HOLD="+path)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, 6)
	if _, err := out.Read(ready); err != nil {
		t.Fatalf("holder does not start: %v", err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", holder.Process.Pid)) {
		t.Errorf("while it is held: %v, want the holder's pid", err)
	}
	if err := holder.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()

	d := mustOpen(t, path, nil)
	for _, gone := range []string{"plugins/memory.1", "kills/x.json.tmp", "conditions.json.tmp"} {
		if _, err := os.Lstat(filepath.Join(path, gone)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", gone, err)
		}
	}
	s := mustLoad(t, d)
	if len(s.Kills) != 1 || s.Kills[0].UID != aKill.UID || len(s.Conditions) != 1 {
		t.Errorf("state %+v, want the kill and the condition of the killed one", s)
	}
}

// hold runs the process that gets killed.
func hold(path string) {
	d, err := Open(path)
	if err != nil {
		panic(err)
	}
	socket := filepath.Join(d.Plugins(), "memory.1", "socket")
	err = errors.Join(
		os.Mkdir(filepath.Dir(socket), 0o700), os.WriteFile(socket, nil, 0o600),
		os.WriteFile(filepath.Join(path, "kills", "x.json.tmp"), []byte("{"), 0o600),
		os.WriteFile(filepath.Join(path, "conditions.json.tmp"), []byte("{"), 0o600),
		d.SaveKill(aKill), d.SaveConditions(map[eviction.Condition]time.Time{eviction.MemoryPressure: time.Now()}),
	)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("ready\n")
	for {
		_ = unix.Pause()
	}
}

func TestARestartedHostHasTheKillsOfTheFormer(t *testing.T) {
	path, c := newPath(t), newClock()
	d := mustOpen(t, path, c)
	odd := aKill
	odd.UID, odd.GraceSeconds, odd.Message = "../../etc/passwd", 1, strings.Repeat("é", maxMessageBytes)
	negative := victim.Kill{UID: "n", GraceSeconds: -4}
	for _, k := range []victim.Kill{aKill, odd, negative} {
		if err := d.SaveKill(k); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Second)
	}
	c.pass(7 * time.Second)
	c.wall = c.wall.Add(-3 * time.Hour) // The wall clock is set back; ages do not care.
	got := mustLoad(t, d)
	want := []victim.Kill{aKill, odd, negative}
	want[0].GraceSeconds, want[0].DecidedAt = 20, c.wall.Add(-10*time.Second)
	want[1].DecidedAt = c.wall.Add(-9 * time.Second)
	want[1].Message = strings.Repeat("é", maxMessageBytes/2)
	want[2].GraceSeconds, want[2].DecidedAt = 1, c.wall.Add(-8*time.Second)
	for i, grace := range []time.Duration{30 * time.Second, time.Second, 0} {
		want[i].GraceEnds = want[i].DecidedAt.Add(grace)
	}
	if diff := cmp.Diff(want, got.Kills); diff != "" {
		t.Error(diff)
	}
	shorter := aKill
	shorter.GraceSeconds = 1
	if err := d.SaveKill(shorter); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{odd.UID, negative.UID, "never-saved"} {
		if err := d.RemoveKill(uid); err != nil {
			t.Error(err)
		}
	}
	if got := mustLoad(t, d).Kills; len(got) != 1 || got[0].GraceSeconds != 1 {
		t.Errorf("kills %+v, want the shortened one alone", got)
	}
	files, err := os.ReadDir(d.kills())
	if err != nil || len(files) != 1 || files[0].Name() != aKill.UID+".json" {
		t.Errorf("files %v, %v, want the one of the kill", files, err)
	}
}

func TestARestartedHostKeepsItsConditions(t *testing.T) {
	c := newClock()
	d := mustOpen(t, newPath(t), c)
	if got := mustLoad(t, d); got.Conditions != nil || got.Kills != nil {
		t.Errorf("state %+v of a new directory, want none", got)
	}
	seen := c.wall.Add(-time.Minute)
	if err := d.SaveConditions(map[eviction.Condition]time.Time{eviction.MemoryPressure: seen, eviction.DiskPressure: c.wall}); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Minute)
	c.wall = c.wall.Add(24 * time.Hour)
	want := map[eviction.Condition]time.Time{eviction.MemoryPressure: c.wall.Add(-2 * time.Minute), eviction.DiskPressure: c.wall.Add(-time.Minute)}
	if diff := cmp.Diff(want, mustLoad(t, d).Conditions); diff != "" {
		t.Error(diff)
	}
	if err := d.SaveConditions(nil); err != nil {
		t.Fatal(err)
	}
	if got := mustLoad(t, d).Conditions; len(got) != 0 {
		t.Errorf("conditions %v, want none", got)
	}
}

// What a victim has yet to free outlives the process, with times since the boot.
func TestARestartedHostKnowsWhatIsAwaited(t *testing.T) {
	c := newClock()
	d := mustOpen(t, newPath(t), c)
	want := []policy.Owed{{
		UID: "uid-a", Pod: "ns/a", Decided: policy.Moment{Time: c.wall.UTC(), BootNanos: 5}, Ended: policy.Moment{Time: c.wall.UTC(), BootNanos: 7},
		Frees: map[eviction.Signal]eviction.Figure{eviction.MemoryAvailable: eviction.Some(3), eviction.PIDAvailable: {}},
	}}
	if err := d.SaveOwed(want); err != nil {
		t.Fatal(err)
	}
	c.wall = c.wall.Add(-time.Hour)
	if diff := cmp.Diff(want, mustLoad(t, d).Owed); diff != "" {
		t.Error(diff)
	}
	c.bootID = "boot-2"
	if got := mustLoad(t, d); len(got.Owed) != 0 {
		t.Errorf("state %+v after another boot, want none", got)
	}
}

func TestAnotherBootStartsEmpty(t *testing.T) {
	c := newClock()
	d := mustOpen(t, newPath(t), c)
	if err := errors.Join(d.SaveKill(aKill), d.SaveConditions(map[eviction.Condition]time.Time{eviction.PIDPressure: c.wall})); err != nil {
		t.Fatal(err)
	}
	c.bootID, c.bootNanos = "boot-2", int64(time.Second)
	if got := mustLoad(t, d); len(got.Kills) != 0 || len(got.Conditions) != 0 {
		t.Errorf("state %+v, want none", got)
	}
	c.bootID = "boot-1"
	if got := mustLoad(t, d); len(got.Kills) != 0 || len(got.Conditions) != 0 {
		t.Errorf("state %+v, want the files gone", got)
	}
}

func TestRubbishInTheJournalIsNamedAndLeftAlone(t *testing.T) {
	for name, c := range map[string]struct{ file, content, want string }{
		"no JSON":               {"kills/x.json", "{", "unexpected end of JSON input"},
		"an empty file":         {"kills/x.json", "", "unexpected end of JSON input"},
		"another version":       {"kills/x.json", `{"version":2}`, "has version 2, want 1"},
		"no boot":               {"kills/x.json", `{"version":1}`, "bootID is missing"},
		"no uid":                {"kills/x.json", `{"version":1,"bootID":"boot-1"}`, "kill.uid is missing"},
		"another pod's name":    {"kills/x.json", `{"version":1,"bootID":"boot-1","kill":{"uid":"y"}}`, `is about uid "y", whose file would be y.json`},
		"an empty container id": {"kills/y.json", `{"version":1,"bootID":"boot-1","kill":{"uid":"y","containerIDs":["a",""]}}`, "kill.containerIDs[1] has 0 bytes"},
		"a huge name":           {"kills/y.json", `{"version":1,"bootID":"boot-1","kill":{"uid":"y","name":"` + strings.Repeat("n", 300) + `"}}`, "kill.name has 300 bytes"},
		"a huge file":           {"kills/x.json", strings.Repeat(" ", maxFileBytes+1), "is larger than 262144 bytes"},
		"not a file":            {"kills/x.json/", "", "is a directory, want a regular file"},
		"conditions, no JSON":   {"conditions.json", "\x00", "invalid character"},
		"conditions, no boot":   {"conditions.json", `{"version":1}`, "bootID is missing"},
		"conditions, no name":   {"conditions.json", `{"version":1,"bootID":"boot-1","lastSeen":{"":{}}}`, "a condition of 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustOpen(t, newPath(t), newClock())
			if err := d.SaveKill(aKill); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(d.Path(), c.file)
			write := func() error { return os.WriteFile(path, []byte(c.content), 0o600) }
			if strings.HasSuffix(c.file, "/") {
				write = func() error { return os.Mkdir(path, 0o700) }
			}
			if err := write(); err != nil {
				t.Fatal(err)
			}
			got, err := d.Load()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("Load: %v, want %q and the file", err, c.want)
			}
			if len(got.Kills) != 1 || got.Kills[0].UID != aKill.UID {
				t.Errorf("kills %+v, want the good one", got.Kills)
			}
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("the file was not left alone: %v", err)
			}
		})
	}
}

func TestAJournalThatCannotBeWrittenSaysSo(t *testing.T) {
	c := newClock()
	d := mustOpen(t, newPath(t), c)
	testos.Remove(t, d.kills())
	if err := d.SaveKill(aKill); err == nil || !strings.Contains(err.Error(), "note kill of shop/cart") {
		t.Errorf("SaveKill: %v", err)
	}
	c.bootID = ""
	if err := d.SaveConditions(nil); err == nil || !strings.Contains(err.Error(), "note conditions: no clock") {
		t.Errorf("SaveConditions: %v", err)
	}
}

// A full disk is a file size limit here: the write fails half way.
func TestAFullDiskLeavesTheFormerNoteWhole(t *testing.T) {
	if os.Getenv("RUNDIR_FULL") == "" {
		full := exec.Command(os.Args[0], "-test.run", "^TestAFullDiskLeavesTheFormerNoteWhole$")
		full.Env = append(os.Environ(), "RUNDIR_FULL=1")
		if out, err := full.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	d := mustOpen(t, newPath(t), nil)
	if err := d.SaveKill(aKill); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 256, Max: 256}); err != nil {
		t.Fatal(err)
	}
	k := aKill
	k.GraceSeconds = 1
	if err := d.SaveKill(k); !errors.Is(err, unix.EFBIG) {
		t.Errorf("SaveKill: %v, want the system's error", err)
	}
	if files, err := os.ReadDir(d.kills()); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v, want no half-written one", files, err)
	}
	if got := mustLoad(t, d).Kills; len(got) != 1 || got[0].GraceSeconds < 20 {
		t.Errorf("kills %+v, want the former note", got)
	}
}

func TestTheSystemClock(t *testing.T) {
	before, err := systemNow()
	if err != nil || before.bootNanos <= 0 || len(before.bootID) != 36 {
		t.Fatalf("moment %+v, %v", before, err)
	}
	after, err := systemNow()
	if err != nil || after.bootID != before.bootID || after.bootNanos < before.bootNanos || after.since(before.at(before.wall)) < 0 {
		t.Errorf("moment %+v after %+v, %v", after, before, err)
	}
}

func FuzzDecode(f *testing.F) {
	now := newClock().moment
	f.Add([]byte(`{"version":1,"bootID":"boot-1","decided":{"wall":"2026-03-01T12:00:00Z","bootNanos":1},"kill":{"uid":"u","graceSeconds":30}}`))
	f.Add([]byte(`{"version":1,"bootID":"boot-1","decided":{"bootNanos":-9223372036854775808},"kill":{"uid":"u","graceSeconds":-9223372036854775808}}`))
	f.Add([]byte(`{"version":1,"bootID":"boot-1","lastSeen":{"MemoryPressure":{"bootNanos":9223372036854775807}}}`))
	f.Add([]byte(`{"version":1,"bootID":"boot-2"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if k, err := decodeKill(data, now); err == nil {
			if k.UID == "" || k.GraceSeconds < 1 || k.GraceSeconds > maxGraceSeconds || k.DecidedAt.After(now.wall) {
				t.Errorf("accepted %+v", k)
			}
			if name := killName(k.UID); filepath.Base(name) != name || strings.HasPrefix(name, ".") || len(name) > 255 {
				t.Errorf("uid %q makes the file name %q", k.UID, name)
			}
		}
		conditions, err := decodeConditions(data, now)
		for c, at := range conditions {
			if err != nil || c == "" || at.After(now.wall) {
				t.Errorf("accepted %q at %v, %v", c, at, err)
			}
		}
	})
}

// A former plugin's directory that could not be removed kept evictd from starting,
// for ever.
func TestLeftoversOfPluginsDoNotPreventAStart(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, newClock())
	deep := filepath.Join(d.Plugins(), "memory.1")
	for range 200 {
		deep = filepath.Join(deep, "d")
	}
	if err := errors.Join(os.MkdirAll(deep, 0o700), d.Close()); err != nil {
		t.Fatal(err)
	}
	var again *Dir
	synctest.Test(t, func(t *testing.T) { again = mustOpen(t, path, newClock()) }) // without an end of the second that it may take
	if left, err := os.ReadDir(again.Plugins()); err != nil || len(left) > 0 || again.Leftovers() != nil {
		t.Errorf("left %v, %v, %v, want nothing", left, err, again.Leftovers())
	}
	// What cannot be removed: another filesystem is mounted there.
	busy := filepath.Join(again.Plugins(), "busy")
	testos.Mkdir(t, busy, 0o700)
	if err := unix.Mount("none", busy, "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("needs to mount: %v", err)
	}
	defer unix.Unmount(busy, unix.MNT_DETACH)
	third := mustOpen(t, path, newClock())
	if err := third.Leftovers(); !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), busy) {
		t.Errorf("leftovers: %v, want the reason and %s", err, busy)
	}
}

// A record that is written to the API server after a restart has the time and the reason of
// the decision, not of the restart.
func TestAKillKeepsItsReportAndItsSteps(t *testing.T) {
	path, clock := newPath(t), newClock()
	d := mustOpen(t, path, clock)
	kill := aKill
	kill.EvictedAt, kill.Generation, kill.Limit = clock.wall.Add(-time.Minute), 7, true
	for _, step := range []func(k *victim.Kill){
		func(*victim.Kill) {},
		func(k *victim.Kill) { k.Stopping = true },
		func(k *victim.Kill) { k.Ended = true },
		func(k *victim.Kill) { k.Recorded = true },
	} {
		step(&kill)
		if err := d.SaveKill(kill); err != nil {
			t.Fatal(err)
		}
		got := mustLoad(t, d).Kills
		if len(got) != 1 {
			t.Fatalf("%d kills, want 1", len(got))
		}
		got[0].DecidedAt, got[0].GraceEnds = time.Time{}, time.Time{}
		if diff := cmp.Diff(kill, got[0]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
