package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
)

// patient bounds the waits of tests for what takes milliseconds on a quiet machine.
const patient = 20 * time.Second

// counting is a confinement that confines nothing.
type counting struct {
	unconfined
	closed atomic.Int32
}

func (c *counting) Close() { c.closed.Add(1) }

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	// A child that another test forks meanwhile would hold the file open for writing.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	testos.WriteFile(t, path, text, 0o700)
	return path
}

func command(path string, c Confinement, log *Log) Command {
	add := func(line []byte, _ bool) { log.Add(string(line)) }
	return Command{Path: path, Args: []string{path}, Dir: "/s", Confinement: c, Stdout: add, Stderr: add}
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	busy := script(t, "#!/bin/sh\n")
	writer, err := os.OpenFile(busy, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for name, c := range map[string]struct {
		path string
		want error
	}{
		"text":                   {script(t, "just text"), ErrNotProgram},
		"no interpreter":         {script(t, "#!/nonexistent\n"), ErrNotProgram},
		"somebody writes to it":  {busy, ErrBusy},
		"it may not be executed": {os.DevNull, os.ErrPermission},
	} {
		var confined counting
		_, err := Start(command(c.path, &confined, &Log{}))
		if !errors.Is(err, c.want) || confined.closed.Load() != 1 {
			t.Errorf("%s: %v, confinement closed %d times; want %v and once", name, err, confined.closed.Load(), c.want)
		}
	}
}

func TestAProcessThatIsNoPlugin(t *testing.T) {
	for name, c := range map[string]struct{ text, says, log string }{
		"it ends":         {"echo why >&2; exit 3", "exited before the handshake (exit status 3)", "why"},
		"it says nothing": {"exec >&-; sleep 60", "closed its stdout before the handshake", ""},
		"it prints":       {"echo more >&2; echo hello; sleep 60", `wrote "hello" to stdout`, "more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var confined counting
			var log Log
			p, err := Start(command(script(t, "#!/bin/sh\n"+c.text+"\n"), &confined, &log))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patient)
			defer cancel()
			if _, err := p.Ready(ctx, nil); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if err := p.Stop(0); err != nil {
				t.Error(err)
			}
			if last := strings.Join(log.Last(1), ""); last != c.log || confined.closed.Load() != 1 || p.Ending() == "" {
				t.Errorf("logged %q, ended with %q, confinement closed %d times; want %q and once", last, p.Ending(), confined.closed.Load(), c.log)
			}
		})
	}
}
