package supervisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// faultyBytes is a program that behaves as test/faulty does under that name.
func faultyBytes(t testing.TB, as string) []byte {
	t.Helper()
	content, err := os.ReadFile(faultyProgram)
	if err != nil {
		t.Fatal(err)
	}
	return append(content, "\x00posing as "+as...)
}

// put puts such a program into dir as an installer does: beside, and then in place.
func put(t testing.TB, dir, name, as string) {
	t.Helper()
	beside := filepath.Join(dir, "."+name)
	if err := os.WriteFile(beside, faultyBytes(t, as), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// installed is a new directory with programs that may be replaced.
func installed(t testing.TB, names ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, name := range names {
		put(t, dir, name, name)
	}
	return dir
}

func alive(pid int) bool { return pid > 0 && syscall.Kill(pid, 0) == nil }

func TestAReplacedPluginTakesOverAtAPassBoundary(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good")
	h := startHost(t, dir)
	pass, old := h.pinned("good")
	drain(h.changed)
	put(t, dir, "good", "good")
	eventually(t, "another process serves", func() bool { return h.plugin("good").PID != old.PID })
	select {
	case <-h.Changed():
	case <-time.After(patient):
		t.Error("nobody was told of the change")
	}
	s := h.plugin("good")
	if s.State != Running || s.Swaps != 1 || s.Restarts != 0 || s.Replacement != nil || s.LastError != "" {
		t.Errorf("%+v, want it to run after one swap, without anything wrong", s)
	}
	if _, err := observe(t.Context(), old); err != nil {
		t.Errorf("the former process is pinned and fails: %v", err)
	}
	next, new := h.pinned("good")
	if new.PID != s.PID || new.Generation <= old.Generation {
		t.Errorf("the next pass has process %d of generation %d, want the new one", new.PID, new.Generation)
	}
	next.Release()
	pass.Release()
	eventually(t, "the former process has ended", func() bool { return !alive(old.PID) })
	want(t, h.log.String(), `"msg":"plugin replaced"`)
}

func TestABrokenReplacementLeavesTheFormerOneRunning(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good", "rival-a")
	h := startHost(t, dir, shortTimeouts, func(o *Options) { o.Settings = configs("good", `{"n":1}`) })
	before := h.plugin("good").PID
	for _, c := range []struct{ as, want string }{
		{"rubbish", "want go-plugin's handshake first"},
		{"exits", "exited before the handshake (exit status 3)"},
		{"crashes-in-describe", "describe: the plugin crashed (exit status 4)"},
		{"refuses-host", "describe: plugin refused"},
		{"refuses-config", "configure: plugin refused: config.color"},
		{"crashes-in-observe", "observe: the plugin crashed"},
		{"hangs-in-observe", "observe: no answer within 200ms"},
		{"observes-rubbish", "observe: invalid reply from plugin"},
		{"rival-b", `plugins "good" and "rival-a" both offer rank memory.available`},
	} {
		put(t, dir, "good", c.as)
		eventually(t, "the failure of "+c.as+" is shown", func() bool {
			r := h.plugin("good").Replacement
			return r != nil && r.State == Refused && strings.Contains(r.Reason, c.want)
		})
		if s := h.plugin("good"); s.PID != before || s.State != Running {
			t.Fatalf("after %s: %s with pid %d, want the former process %d to run", c.as, s.State, s.PID, before)
		}
		if got := h.config("good"); got != `{"n":1}` {
			t.Errorf("after %s: config %q, want that of before", c.as, got)
		}
	}
	want(t, h.log.String(), `"msg":"plugin was not replaced, the former process stays","plugin":"good"`)
	put(t, dir, "good", "good")
	eventually(t, "a good file takes over", func() bool { s := h.plugin("good"); return s.PID != before && s.Replacement == nil })
	if s := h.plugin("rival-a"); s.Restarts+s.Swaps > 0 || s.State != Running {
		t.Errorf("rival-a: %+v, want it left alone", s)
	}
}

func TestAFailedReplacementIsTriedAgainWithOtherSettings(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good")
	h := startHost(t, dir, func(o *Options) { o.Settings = configs("good", `"refuse"`) })
	if s := h.plugin("good"); s.State != Refused {
		t.Fatalf("good is %s, want it refused", s.State)
	}
	put(t, dir, "good", "exits")
	eventually(t, "a new file counts fresh", func() bool { return strings.Contains(h.plugin("good").LastError, "exit status 3") })
	put(t, dir, "good", "good")
	eventually(t, "it refuses again", func() bool { return h.plugin("good").State == Refused })
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() bool { return h.plugin("good").State == Running })
	before := h.plugin("good").PID
	// It refuses no configuration, so that without certificates it would run.
	put(t, dir, "good", "unasked-certificate")
	eventually(t, "the replacement fails", func() bool { r := h.plugin("good").Replacement; return r != nil && r.State == Refused })
	put(t, dir, "good", "good")
	eventually(t, "the next one takes over", func() bool { s := h.plugin("good"); return s.PID != before && s.State == Running })
	before = h.plugin("good").PID
	off := false
	pass, old := h.pinned("good")
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"good": {AutoMTLS: &off}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "other terms are a swap, too", func() bool { return h.plugin("good").PID != before })
	if _, err := observe(t.Context(), old); err != nil {
		t.Errorf("the former process is pinned and fails: %v", err)
	}
	pass.Release()
}

func TestHalfAFileIsNotStarted(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good")
	h := startHost(t, dir)
	before := h.plugin("good").PID
	content := faultyBytes(t, "")
	// In place of the one that runs, and a new one.
	if err := os.Remove(filepath.Join(dir, "good")); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for _, name := range []string{"good", "fresh"} {
		f, err := os.OpenFile(filepath.Join(dir, name+".tmp"), os.O_CREATE|os.O_WRONLY, 0o700)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	// The removal may have been seen or not.
	waiting := func(says string) func() bool {
		return func() bool {
			fresh, good := h.plugin("fresh"), h.plugin("good")
			goodWaits := good.State == Waiting && strings.Contains(good.Reason, says)
			if r := good.Replacement; r != nil {
				goodWaits = r.State == Waiting && strings.Contains(r.Reason, says) && good.PID == before
			}
			return fresh.State == Waiting && strings.Contains(fresh.Reason, says) && goodWaits
		}
	}
	eventually(t, "empty files are waited for", waiting("still being written: it is empty"))
	for _, f := range files {
		if _, err := f.Write(content[:len(content)/2]); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "files that are open for writing are waited for", waiting("still being written: somebody has it open for writing"))
	half := files[0]
	if err := half.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "half a program is waited for", func() bool {
		s := h.plugin("good")
		r := s.Reason
		if s.Replacement != nil {
			r = s.Replacement.Reason
		}
		return strings.Contains(r, "its headers speak of")
	})
	for _, f := range files {
		rest, err := os.OpenFile(f.Name()[:len(f.Name())-len(".tmp")], os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rest.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
		_ = rest.Close()
	}
	eventually(t, "only fresh is waited for", func() bool {
		good := h.plugin("good")
		return h.plugin("fresh").State == Waiting && good.State == Running && good.PID != before
	})
	if err := files[1].Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "fresh runs", func() bool { return h.plugin("fresh").State == Running })
	if s := h.plugin("fresh"); s.LastError != "" || s.Restarts != 0 {
		t.Errorf("%+v, want nothing wrong with it", s)
	}
}

func TestRemoveAndPutBack(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good", "memory")
	h := startHost(t, dir)
	bystander := h.plugin("memory").PID
	pass, old := h.pinned("good")
	removed := time.Now()
	if err := os.Remove(filepath.Join(dir, "good")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone from status and passes", func() bool {
		p := h.Pin()
		defer p.Release()
		return h.plugin("good").Name == "" && len(p.Instances()) == 1
	})
	if took := time.Since(removed); took > time.Second && strict() {
		t.Errorf("it took %s, want less than 1s", took)
	}
	want(t, h.log.String(), `"msg":"plugin leaves and nobody observes its signals any more","plugin":"good","because":"removed","signals":["faulty.example/good"]`)
	if _, err := observe(t.Context(), old); err != nil {
		t.Errorf("it is pinned and fails: %v", err)
	}
	put(t, dir, "good", "good")
	eventually(t, "it runs again although the former process is pinned", func() bool { return h.plugin("good").State == Running })
	if s := h.plugin("good"); s.Restarts != 0 || s.LastError != "" {
		t.Errorf("%+v, want it to count fresh", s)
	}
	pass.Release()
	eventually(t, "the former process has ended", func() bool { return !alive(old.PID) })
	if s := h.plugin("memory"); s.PID != bystander {
		t.Errorf("memory has pid %d, want it left alone with %d", s.PID, bystander)
	}
}

// Nobody waits for a plugin that was removed while it started, or before.
func TestRemovalAtTheStart(t *testing.T) {
	t.Parallel()
	dir := installed(t, "silent", "good")
	time.AfterFunc(300*time.Millisecond, func() { _ = os.Remove(filepath.Join(dir, "silent")) })
	began := time.Now()
	h := startHost(t, dir)
	if took := time.Since(began); took > h.timeouts.Handshake/2 {
		t.Errorf("the start took %s, want it to end with the removal", took)
	}
	eventually(t, "it is gone", func() bool { return len(h.Status()) == 1 && len(processesOf(h.sockets)) == 1 })

	s := h.Supervisor
	s.mu.Lock()
	m := newMember(s, "unborn")
	s.started, s.unsettled, m.first, m.leaving = make(chan struct{}), 1, true, true
	s.untried = 2 // It has been closed.
	s.mu.Unlock()
	m.gone()
	<-s.started
}

func TestRemovalDuringASwap(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good")
	h := startHost(t, dir, shortTimeouts)
	put(t, dir, "good", "silent")
	eventually(t, "the new process is starting", func() bool { r := h.plugin("good").Replacement; return r != nil && len(processesOf(h.sockets)) == 2 })
	if err := os.Remove(filepath.Join(dir, "good")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left", func() bool { return h.plugin("good").Name == "" && len(processesOf(h.sockets)) == 0 })
}

func TestACrashDuringASwap(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good")
	p := defaultPatience()
	p.first, p.longest = time.Hour, 2*time.Hour // there shall be no other start
	h := startPatient(t, p, dir)
	before := h.plugin("good").PID
	put(t, dir, "good", "slow")
	eventually(t, "the new process is starting", func() bool { return len(processesOf(h.sockets)) == 2 })
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new process serves", func() bool { s := h.plugin("good"); return s.State == Running && s.PID != before })
	want(t, h.plugin("good").LastError, "exited by itself (signal: killed)")
}

func TestANewFileEndsQuarantine(t *testing.T) {
	t.Parallel()
	dir := installed(t, "exits", "good")
	p := patience{first: 5 * time.Millisecond, longest: 20 * time.Millisecond, crashes: 3, window: time.Hour, stable: time.Minute}
	h := startPatient(t, p, dir)
	eventually(t, "it is in quarantine", func() bool { return h.plugin("exits").State == Quarantined })
	if u := h.plugin("exits").Until; u == nil || time.Until(*u) < 59*time.Minute {
		t.Errorf("until %v, want an hour from now", u)
	}
	put(t, dir, "good", "good") // That is somebody else's.
	eventually(t, "the other one is replaced", func() bool { return h.plugin("good").Swaps == 1 })
	if s := h.plugin("exits").State; s != Quarantined {
		t.Errorf("it is %s after the swap of another plugin, want it in quarantine", s)
	}
	put(t, dir, "exits", "fine")
	eventually(t, "it runs", func() bool { return h.plugin("exits").State == Running })
}

func TestLinks(t *testing.T) {
	t.Parallel()
	programs := installed(t, "first", "second")
	dir := privateDir(t)
	link := func(to string) {
		t.Helper()
		beside := filepath.Join(dir, ".link")
		if err := os.Symlink(filepath.Join(programs, to), beside); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(beside, filepath.Join(dir, "good")); err != nil {
			t.Fatal(err)
		}
	}
	link("first")
	h := startHost(t, dir)
	before := h.plugin("good").PID
	link("second")
	eventually(t, "the other target is taken over", func() bool { s := h.plugin("good"); return s.PID != before && s.State == Running })
	before = h.plugin("good").PID
	put(t, programs, "second", "good")
	signal(h.rescan) // What the slow look does.
	eventually(t, "a new target is taken over", func() bool { s := h.plugin("good"); return s.PID != before && s.State == Running })
	if err := os.Remove(filepath.Join(programs, "second")); err != nil {
		t.Fatal(err)
	}
	signal(h.rescan)
	eventually(t, "a link to nothing is a plugin that was removed", func() bool {
		s := h.plugin("good")
		return s.State == Refused && strings.Contains(s.Reason, "no such file")
	})
	link("first")
	eventually(t, "it is back", func() bool { return h.plugin("good").State == Running })
}

func TestAnotherDirectoryInItsPlace(t *testing.T) {
	t.Parallel()
	above := privateDir(t)
	dir, other := filepath.Join(above, "plugins"), filepath.Join(above, "other")
	for _, d := range []string{dir, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir, "a", "a")
	put(t, dir, "b", "b")
	h := startHost(t, dir)
	put(t, other, "b", "b")
	put(t, other, "c", "c")
	before := h.plugin("b").PID
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its absence is told", func() bool {
		return strings.Contains(h.log.String(), "plugin directory cannot be used, plugins stay as they are")
	})
	if err := os.Rename(other, dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new directory counts", func() bool {
		return h.plugin("a").Name == "" && h.plugin("b").PID != before && h.plugin("b").State == Running && h.plugin("c").State == Running
	})
	put(t, dir, "d", "d")
	eventually(t, "it is watched", func() bool { return h.plugin("d").State == Running })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "e", "e")
	eventually(t, "nothing is taken from a directory that others may write to", func() bool { return strings.Contains(h.log.String(), "mode 0777 is writable by others") })
	if s := h.plugin("e"); s.Name != "" {
		t.Errorf("%+v was taken", s)
	}
}

func TestWhatAFileNeeds(t *testing.T) {
	whole := faultyBytes(t, "good")
	size := uint64(len(whole))
	need := elfSize(bytes.NewReader(whole), int64(size))
	if need == 0 || need > size {
		t.Fatalf("a program of %d bytes needs %d", size, need)
	}
	for _, n := range []uint64{1, 3, 4, 6, 20, 64, 500, size / 2, need - 1} {
		if got := elfSize(bytes.NewReader(whole[:n]), int64(n)); got <= n {
			t.Errorf("the first %d bytes need %d, want more", n, got)
		}
	}
	if got := elfSize(strings.NewReader("#!/bin/sh\n"), 10); got != 0 {
		t.Errorf("a script needs %d bytes, want nothing known", got)
	}
}

func FuzzWhatAFileNeeds(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Add(append([]byte("\x7fELF\x01\x02"), bytes.Repeat([]byte{0xff}, 200)...))
	f.Fuzz(func(t *testing.T, content []byte) {
		elfSize(bytes.NewReader(content), int64(len(content)))
	})
}
