package process

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// With its run directory gone plugins never started again, and a second evictd on
// the path decided as well.
func TestARunDirectoryThatIsRemovedIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	if err := os.RemoveAll(d.RunDir); err != nil {
		t.Fatal(err)
	}
	d.AwaitMsg("run directory was removed and made again: kills in flight are not noted there", 5*time.Second)
	kill(t, pluginPID(t, d, "memory"), syscall.SIGKILL)
	second := w.config
	second["runDir"] = d.RunDir
	other := w.start()
	if code := other.Wait(5 * time.Second); code != 1 {
		t.Errorf("the second evictd ended with %d, want it refused", code)
	}
	wantAll(t, "the second evictd", other.LogText(), "in use by another evictd", fmt.Sprint(d.PID()))
	pluginPID(t, d, "memory")
	w.pressure()
	w.gone("big", 5*time.Second)
	if code, text := d.Get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz = %d %q", code, text)
	}
}

// A file in the place of the sockets' directory brought a plugin that died then into
// quarantine, where it stayed for ten minutes after the file was gone.
func TestAPluginIsBackAtOnceWithTheRunDirectory(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	sockets := filepath.Join(d.RunDir, "plugins")
	putFileFor(t, sockets)
	d.AwaitMsg("run directory is gone and cannot be made again: plugins cannot start, kills are not noted", 5*time.Second)
	kill(t, pluginPID(t, d, "memory"), syscall.SIGKILL)
	const crashesToQuarantine = 5
	eventually(t, 30*time.Second, func() error {
		_, text := d.Get("/metrics")
		const counter = `evictd_plugin_restarts_total{plugin="memory"} `
		_, text, _ = strings.Cut(text, counter)
		var starts int
		if _, err := fmt.Sscan(text, &starts); err != nil {
			return fmt.Errorf("%s: %w", counter, err)
		}
		if starts <= crashesToQuarantine {
			return fmt.Errorf("%s%d, want more than %d", counter, starts, crashesToQuarantine)
		}
		return nil
	})
	if err := os.Remove(sockets); err != nil {
		t.Fatal(err)
	}
	d.AwaitMsg("run directory was removed and made again: kills in flight are not noted there", 5*time.Second)
	pluginPID(t, d, "memory")
	if text := d.LogText(); strings.Contains(text, "quarantine") {
		t.Errorf("a quarantine, want none for the host's own fault:\n%s", text)
	}
	wantAll(t, "the log", d.LogText(), "the host cannot use its own directory: mkdir "+sockets)
}

// A directory that cannot be made again is told for as long as it is so.
func TestARunDirectoryThatCannotBeMadeAgainIsTold(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	putFileFor(t, d.RunDir)
	d.AwaitMsg("run directory is gone and cannot be made again: plugins cannot start, kills are not noted", 5*time.Second)
	if code, text := d.Get("/healthz"); code != http.StatusServiceUnavailable {
		t.Errorf("/healthz = %d %q, want 503 and the reason", code, text)
	} else {
		wantAll(t, "/healthz", text, "was removed or replaced")
	}
	if err := os.Remove(d.RunDir); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, func() error {
		if code, text := d.Get("/healthz"); code != http.StatusOK {
			return fmt.Errorf("/healthz = %d %q", code, text)
		}
		return nil
	})
}

// putFileFor puts a file in the place of a directory.
func putFileFor(t *testing.T, dir string) {
	t.Helper()
	put := func() error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) }
	if put() != nil { // It was made again before the file could take its place.
		if err := put(); err != nil {
			t.Fatal(err)
		}
	}
}
