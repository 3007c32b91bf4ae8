package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
)

// posing is a copy of the faulty program that behaves as under another name.
func posing(t *testing.T, file, as string) {
	t.Helper()
	content, err := os.ReadFile(faultyProgram)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(content, "\x00posing as "+as...), 0o700); err != nil {
		t.Fatal(err)
	}
}

func pinOf(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func pins(name, pin string) func(*Options) {
	return func(o *Options) {
		o.Settings = map[string]Settings{name: {Confinement: Confinement{SHA256: pin}}}
	}
}

func TestPinnedPlugin(t *testing.T) {
	t.Parallel()
	right, wrong := pinOf(t, faultyProgram), strings.Repeat("0f", 32)
	h := startHost(t, install(t, "good"), pins("good", wrong))
	s := h.plugin("good")
	if s.State != Refused || s.Restarts != 0 {
		t.Errorf("good is %s, want it refused", s.State)
	}
	want(t, s.Reason, "has sha256 "+right+", want "+wrong)
	settings := map[string]Settings{"good": {Confinement: Confinement{SHA256: strings.ToUpper(right)}}}
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, settings); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs with the right pin", func() bool { return h.plugin("good").State == Running })
}

// New terms need a new process; the former one serves until that is there, and
// goes on if it cannot be.
func TestChangedConfinementNeedsANewProcess(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good"))
	before := h.plugin("good")
	reconfigure := func(pin string) {
		t.Helper()
		settings := map[string]Settings{"good": {Confinement: Confinement{SHA256: pin}}}
		if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, settings); err != nil {
			t.Fatal(err)
		}
	}
	reconfigure(pinOf(t, faultyProgram))
	eventually(t, "another process runs", func() bool { s := h.plugin("good"); return s.State == Running && s.PID != before.PID })
	if c := h.plugin("good").Confinement; c == nil || !c.Pinned {
		t.Errorf("confinement %+v, want it pinned", c)
	}
	pinned := h.plugin("good")
	reconfigure(strings.Repeat("0f", 32))
	eventually(t, "the replacement is refused", func() bool {
		r := h.plugin("good").Replacement
		return r != nil && r.State == Refused && strings.Contains(r.Reason, "has sha256")
	})
	if s := h.plugin("good"); s.State != Running || s.PID != pinned.PID {
		t.Errorf("good is %s with pid %d, want the former process to go on", s.State, s.PID)
	}
}

func TestPinsMayBeRequired(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good", "other", "memory"), func(o *Options) {
		require := Confinement{RequirePin: true}
		pinned := require
		pinned.SHA256 = pinOf(t, faultyProgram)
		o.Settings = map[string]Settings{"": {Confinement: require}, "good": {Confinement: pinned}, "memory": {Confinement: require}}
	})
	if s := h.plugin("other"); s.State != Refused {
		t.Errorf("other is %s, want it refused", s.State)
	}
	want(t, h.plugin("other").Reason, "it has no pin", "requirePins is on")
	for _, name := range []string{"good", "memory"} {
		if s := h.plugin(name); s.State != Running {
			t.Errorf("%s is %s (%s), want it to run", name, s.State, s.Reason)
		}
	}
	want(t, h.log.String(), `"msg":"plugin started","plugin":"memory"`)
	if strings.Contains(h.log.String(), "settings for a plugin that is not there") {
		t.Error("warned of settings for everybody")
	}
}

// One that runs without a pin must not go on when pins come to be required, and is
// back, with no old error, when they are not any more.
func TestPinsMayComeToBeRequired(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good", "memory"))
	require := map[string]Settings{"": {Confinement: Confinement{RequirePin: true}}}
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, require); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin without a pin has ended", func() bool { return h.plugin("good").State == Refused })
	if s := h.plugin("memory"); s.State != Running || s.Restarts+s.Swaps > 0 {
		t.Errorf("memory is %s with %d restarts, want it to go on", s.State, s.Restarts)
	}
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs again", func() bool { return h.plugin("good").State == Running })
	if s := h.plugin("good"); s.LastError != "" {
		t.Errorf("last error %q, want none", s.LastError)
	}
}

// A pinned program is swapped by name and in place, again and again, between check
// and start. What runs is always the one that was verified.
func TestSwappedProgramIsNeverExecuted(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	path, other := filepath.Join(dir, "pinned"), filepath.Join(dir, "other")
	posing(t, path, "exits")
	posing(t, other, "exits")
	pin := pinOf(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		for n := 0; ctx.Err() == nil; n++ {
			exchange(t, path, other, n)
		}
	}()
	ran, refused := 0, 0
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		switch err := runOnce(t, path, dir, pin); {
		case err == nil:
			ran++
		case errors.Is(err, plugindir.ErrIncomplete), errors.Is(err, unix.ETXTBSY), strings.Contains(err.Error(), "has sha256"):
			refused++
		default:
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, ".mark")); err == nil {
			t.Fatalf("the wrong program ran, after %d right ones and %d refusals", ran, refused)
		}
	}
	cancel()
	<-swapped
	t.Logf("ran %d times, refused %d times", ran, refused)
	if ran == 0 || refused == 0 {
		t.Errorf("ran %d times and was refused %d times, want both", ran, refused)
	}
}

// exchange makes the program another one, in one of two ways.
func exchange(t *testing.T, path, other string, n int) {
	if n%2 == 0 {
		if err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
			t.Error(err)
		}
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return // It runs, or is about to: the kernel keeps it from being written.
	}
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.WriteAt([]byte([]string{"marks", "exits", "exits"}[n%3]), size-int64(len("exits")))
	}
	_ = f.Close()
}

// runOnce starts the program as a member does and waits for its end.
func runOnce(t *testing.T, path, copies, pin string) error {
	t.Helper()
	id, err := plugindir.Identify(path)
	if err != nil {
		return err
	}
	p, err := openProgram(path, programPath, copies, id, pin)
	if err != nil {
		return err
	}
	defer p.close()
	log := slog.New(slog.DiscardHandler)
	proc, err := startProgram(newLineLog(log, "pinned"), copies, path, p)
	if err != nil {
		return err
	}
	if !proc.WaitFor(patient) {
		t.Fatal("it does not end")
	}
	return nil
}

// startProgram starts an open program as a connection does.
func startProgram(log *lineLog, dir, path string, p *program) (*launch.Process, error) {
	return launch.Start(launch.Command{
		Path: p.path, Args: p.arguments(path), Dir: dir, Stdout: log.text, Stderr: log.line,
		Confinement: newSpawner(dir, log.log).confined(log, confinement{}, p),
	})
}

// Where the filesystem has no leases, or the interpreter of a script opens it again,
// what was verified is a copy that nobody can change.
func TestPinnedCopies(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	binary, script := filepath.Join(dir, "binary"), filepath.Join(dir, "script")
	posing(t, binary, "exits")
	if err := os.WriteFile(script, []byte("#!/bin/sh -e\necho \"from $0\" >&2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, says := range map[string]string{binary: "no reason to live", script: "from " + dir + "/plugin-dir-script"} {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		p := &program{file: f, copies: dir, path: programPath}
		if err := p.verify(file, pinOf(t, file)); err != nil {
			t.Fatal(err)
		}
		out := &syncBuffer{}
		log := newLineLog(slog.New(slog.NewTextHandler(out, nil)), "pinned")
		if err := os.WriteFile(file, []byte("#!/bin/false\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		proc, err := startProgram(log, dir, file, p)
		if err != nil {
			t.Fatal(err)
		}
		if !proc.WaitFor(patient) {
			t.Fatal("it does not end")
		}
		want(t, out.String(), says)
		p.close()
	}
	if left, _ := filepath.Glob(dir + "/plugin-dir*"); len(left) > 0 {
		t.Errorf("copies are left: %v", left)
	}
}

// The name is what it was, whatever is executed.
func TestPluginSeesItsOwnName(t *testing.T) {
	t.Parallel()
	dir := installedScript(t, "wrapped", "#!/bin/sh\n[ \"${0##*/}\" = wrapped ] && exec "+install(t, "good")+"/good\n")
	for name, pin := range map[string]string{"by descriptor": "", "by copy": pinOf(t, dir+"/wrapped")} {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, dir, pins("wrapped", pin))
			if s := h.plugin("wrapped"); s.State != Running {
				t.Errorf("the script is %s: %s", s.State, s.Reason)
			}
		})
	}
	h := startHost(t, install(t, "good"))
	pid := h.plugin("good").PID
	cmdline, _ := os.ReadFile(procFile(pid, "cmdline"))
	exe, _ := os.Readlink(procFile(pid, "exe"))
	if comm, _ := os.ReadFile(procFile(pid, "comm")); string(comm) != "good\n" {
		t.Errorf("its process is %q, want good", comm)
	}
	if got := strings.Trim(string(cmdline), "\x00"); got != h.dir+"/good" || exe != faultyProgram {
		t.Errorf("it is called %s and is %s, want %s and %s", got, exe, h.dir+"/good", faultyProgram)
	}
}

// The interpreter opens the script as the plugin's user, which may not reach where it
// is.
func TestScriptWithAUser(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	dir := installedScript(t, "script", "#!/bin/sh\necho \"I am $(/usr/bin/id -u)\" >&2\n")
	if err := os.Chmod(dir+"/script", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, pin := range map[string]string{"by descriptor": "", "by copy": pinOf(t, dir+"/script")} {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, dir, func(o *Options) {
				through(t, o.SocketRoot)
				o.Settings = map[string]Settings{"script": {Confinement: Confinement{User: "nobody", SHA256: pin}}}
			})
			eventually(t, "it says who it is", func() bool { return slices.Contains(h.plugin("script").Log, "I am 65534") })
		})
	}
}

func installedScript(t *testing.T, name, text string) string {
	t.Helper()
	dir := privateDir(t)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestShebang(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start string
		want  shebang
		bad   bool
	}{
		"a binary":             {start: "\x7fELF"},
		"plain":                {start: "#!/bin/sh\necho\n", want: shebang{"/bin/sh"}},
		"blanks":               {start: "#! \t/bin/sh \t\n", want: shebang{"/bin/sh"}},
		"one argument":         {start: "#!/usr/bin/env  node --x\n", want: shebang{"/usr/bin/env", "node --x"}},
		"without a second":     {start: "#!/bin/sh", want: shebang{"/bin/sh"}},
		"nothing":              {start: "#!\n", bad: true},
		"a relative path":      {start: "#!node\n", bad: true},
		"longer than the rest": {start: "#!/" + strings.Repeat("x", shebangBytes-3), bad: true},
	} {
		got, err := parseShebang([]byte(c.start))
		if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != c.bad {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func FuzzShebang(f *testing.F) {
	f.Add([]byte("#!/bin/sh -e\n"))
	f.Add([]byte("#! /usr/bin/env node"))
	f.Fuzz(func(t *testing.T, start []byte) {
		got, err := parseShebang(start)
		if err == nil && got != nil && (len(got) > 2 || !filepath.IsAbs(got[0])) {
			t.Errorf("%q: %q", start, got)
		}
	})
}
