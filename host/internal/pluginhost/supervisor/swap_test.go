package supervisor

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// put puts a program into dir that behaves as the broken plugin does under another name, as
// an installer does: beside, and then in place. The kernel copies it: with the race detector
// that takes a tenth of the time.
func put(t testing.TB, dir, name, as string) {
	t.Helper()
	beside := filepath.Join(dir, "."+name)
	program, err := os.Open(faultyProgram)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	file, err := os.OpenFile(beside, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(file, program)
	_, posing := file.WriteString("\x00posing as " + as)
	if err := errors.Join(err, posing, file.Close(), os.Rename(beside, filepath.Join(dir, name))); err != nil {
		t.Fatal(err)
	}
}

// installed returns a new directory with programs that may be replaced.
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

// plain spares plugins the making of keys, which is most of what a start costs.
func plain(names ...string) func(*Options) {
	return func(o *Options) {
		all := maps.Clone(o.Settings)
		if all == nil {
			all = map[string]Settings{}
		}
		for _, name := range names {
			s := all[name]
			s.AutoMTLS = new(bool)
			all[name] = s
		}
		o.Settings = all
	}
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
	h := startHost(t, dir, func(o *Options) { o.Settings = configs("good", `{"n":1}`) }, plain("good", "rival-a"))
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
	} {
		h.call(func(ctl *controller) { // for the next process, not for the one that serves
			if ctl.Timeouts.Observe = patient; c.as == "hangs-in-observe" {
				ctl.Timeouts.Observe = 200 * time.Millisecond
			}
		})
		put(t, dir, "good", c.as)
		eventually(t, "the failure of "+c.as+" is shown", func() bool {
			r := h.plugin("good").Replacement
			return r != nil && r.State == Refused && strings.Contains(r.Reason, c.want)
		})
		if s := h.plugin("good"); s.PID != before || s.State != Running {
			t.Fatalf("after %s: %s with pid %d, want the former process %d to run", c.as, s.State, s.PID, before)
		}
		if got := config(h.observed("good")); got != `{"n":1}` {
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

func TestACrashDuringASwap(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good")
	p := defaultRestartPolicy()
	p.first, p.longest = time.Hour, 2*time.Hour // there shall be no other start
	h := startWithPolicy(t, p, dir)
	before := h.plugin("good").PID
	gate := filepath.Join(privateDir(t), "gate")
	script := installedScript(t, "good", "#!/bin/sh\nread x <"+gate+"\nexec "+install(t, "good")+"/good\n")
	if err := errors.Join(syscall.Mkfifo(gate, 0o600), os.Rename(script+"/good", dir+"/good")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new process is starting", func() bool { return len(processesOf(h.sockets)) == 2 })
	kill(t, before)
	eventually(t, "the crash is noted", func() bool { return h.plugin("good").LastError != "" })
	testos.WriteFile(t, gate, "\n", 0)
	eventually(t, "the new process serves", func() bool { s := h.plugin("good"); return s.State == Running && s.PID != before })
	want(t, h.plugin("good").LastError, "exited by itself (signal: killed)")
}

func TestANewFileEndsQuarantine(t *testing.T) {
	t.Parallel()
	dir := installed(t, "exits", "good")
	p := restartPolicy{first: 5 * time.Millisecond, longest: 20 * time.Millisecond, crashes: 3, window: time.Hour, stable: time.Minute}
	h := startWithPolicy(t, p, dir)
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
