package plugindir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/testos"
)

// TestMain is a plugin where a test has started it as one.
func TestMain(m *testing.M) {
	if os.Getenv("EVICTD_PARENT_FD") == "" {
		os.Exit(m.Run())
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil || bytes.HasSuffix(self, []byte("posing as marks")) {
		_ = os.WriteFile(filepath.Join(filepath.Dir(os.Args[0]), ".mark"), nil, 0o600)
	}
	fmt.Fprintln(os.Stderr, "no reason to live")
	os.Exit(3)
}

// posing makes a copy of this program that behaves as another one.
func posing(t *testing.T, file, as string) {
	t.Helper()
	content := testos.ReadFile(t, "/proc/self/exe")
	testos.WriteFile(t, file, append(content, "\x00posing as "+as...), 0o700)
}

func pinOf(t *testing.T, file string) string {
	t.Helper()
	content := testos.ReadFile(t, file)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// A pinned program is swapped by name and in place, again and again, between check
// and start. What runs is always the one that was verified.
func TestSwappedProgramIsNeverExecuted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
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
	root := newRoot(t)
	ran, refused := 0, 0
	for both, began := false, time.Now(); time.Since(began) < 3*time.Second || !both && time.Since(began) < time.Minute; both = ran > 0 && refused > 0 {
		switch err := runOnce(t, root, path, pin); {
		case err == nil:
			ran++
		case errors.Is(err, ErrIncomplete), errors.Is(err, unix.ETXTBSY), strings.Contains(err.Error(), "has sha256"):
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

// newRoot is of sandboxes that leave nothing.
func newRoot(t *testing.T) *sandbox.Root {
	return sandbox.NewRoot(t.TempDir(), sandbox.Tell{
		Unlimited: func(string, error) {},
		Left:      func(_ string, err error) { t.Error(err) },
	})
}

// runOnce starts the program as a host does and waits for its end.
func runOnce(t *testing.T, root *sandbox.Root, path, pin string) error {
	t.Helper()
	id, err := Identify(path)
	if err != nil {
		return err
	}
	p, err := Open(path, id, pin, root.MkdirTemp)
	if err != nil {
		return err
	}
	return runProgram(t, root, path, p, func([]byte, bool) {})
}

// runProgram runs an open program and waits for its end.
func runProgram(t *testing.T, root *sandbox.Root, path string, p sandbox.Program, lines func([]byte, bool)) error {
	t.Helper()
	s, err := root.Prepare(filepath.Base(path), 0, p, sandbox.Policy{})
	if err != nil {
		return err
	}
	defer s.RemoveDir()
	command := s.Command(path)
	command.Stdout, command.Stderr = lines, lines
	proc, err := launch.Start(command)
	if err == nil && !proc.WaitFor(20*time.Second) {
		t.Fatal("it does not end")
	}
	return err
}

// Where the filesystem has no leases, or the interpreter of a script opens it again,
// the verified file is a copy that cannot be changed.
func TestPinnedCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binary, script := filepath.Join(dir, "binary"), filepath.Join(dir, "script")
	posing(t, binary, "exits")
	testos.WriteFile(t, script, "#!/bin/sh -e\necho \"from $0\" >&2\n", 0o700)
	root := newRoot(t)
	copies, err := root.MkdirTemp("") // what the names of copies begin with
	if err != nil {
		t.Fatal(err)
	}
	for file, says := range map[string]string{binary: "no reason to live", script: "from " + filepath.Dir(copies) + "/plugin-dir-script"} {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		p := program{Program: sandbox.Program{File: f}, copies: root.MkdirTemp}
		if err := p.verify(file, pinOf(t, file), false); err != nil {
			t.Fatal(err)
		}
		testos.WriteFile(t, file, "#!/bin/false\n", 0o700)
		out := ""
		if err := runProgram(t, root, file, p.Program, func(line []byte, _ bool) { out += string(line) }); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, says) {
			t.Errorf("%s: it wrote %q, want %q", file, out, says)
		}
	}
	root.Close()
	if left, _ := filepath.Glob(filepath.Dir(copies) + "/plugin-dir*"); len(left) != 1 || left[0] != copies {
		t.Errorf("copies are left: %v", left)
	}
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
