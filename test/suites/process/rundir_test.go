package process

import (
	"fmt"
	"net/http"
	"os"
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

// A directory that cannot be made again is told for as long as it is so.
func TestARunDirectoryThatCannotBeMadeAgainIsTold(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	if err := os.RemoveAll(d.RunDir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.RunDir, nil, 0o600); err != nil {
		// It was made again before this could take its place.
		if err := os.RemoveAll(d.RunDir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d.RunDir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
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
