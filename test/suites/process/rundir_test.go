package process

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

// With its run directory gone plugins never started again.
func TestAnEvictdWhoseRunDirectoryIsRemovedEndsAndTheNextMakesIt(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	if err := os.RemoveAll(d.RunDir); err != nil {
		t.Fatal(err)
	}
	if code := d.Wait(10 * time.Second); code != 1 {
		t.Errorf("evictd ended with %d, want 1", code)
	}
	wantAll(t, "the log", d.LogText(), "evictd: run directory "+d.RunDir+" was removed or replaced")
	next := d.Restart()
	next.AwaitReady()
	pluginPID(t, next, "memory")
	w.pressure()
	w.gone("big", 5*time.Second)
}

func TestAKillUnderWayIsCarriedOutBeforeEvictdEnds(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	stop := make(chan struct{})
	w.runtime.Inject(fakecri.StopContainer, fakecri.Fault{Until: stop})
	w.pressure()
	if err := w.runtime.Await(t.Context(), fakecri.StopContainer, 1); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(d.RunDir); err != nil {
		t.Fatal(err)
	}
	d.AwaitMsg("run directory is gone, evictd ends after the kills under way", 5*time.Second)
	close(stop)
	if code := d.Wait(10 * time.Second); code != 1 {
		t.Errorf("evictd ended with %d, want 1", code)
	}
	if w.runtime.Running("uid-big") {
		t.Error("the victim runs on")
	}
	wantAll(t, "the log", d.LogText(), "pod killed")
}

// The disk that evictd fights for may be the one that it keeps its state on.
func TestOnAFullRunDirectoryAKillGoesOnWithoutItsNote(t *testing.T) {
	w := newWorld(t)
	dir := daemon.RunDir(t)
	if err := unix.Mount("evictd-test", dir, "tmpfs", 0, "size=512k,mode=0711"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w.config["runDir"] = dir
	d := w.startReady()
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("error %v, want ENOSPC", err)
	}
	w.pressure()
	d.AwaitMsg("kill is not in the journal, a restart would forget it", 5*time.Second)
	d.AwaitMsg("pod finished", 5*time.Second)
	w.gone("big", 5*time.Second)
	if code, text := d.Get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz = %d %q", code, text)
	}
}
