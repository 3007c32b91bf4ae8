package inspect

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/testos"
)

// A daemon is healthy until an error has lasted, and says in its log what has changed.
func TestAWatchRemembersSinceWhenThereIsAnError(t *testing.T) {
	dir, runtime := t.TempDir(), fakecri.Start(t)
	runtime.SetImageDir(dir)
	testos.WriteFile(t, filepath.Join(dir, "memory"), "", 0o755)
	c := config.Default()
	c.RuntimeEndpoint, c.ImageEndpoint, c.PluginDir, c.KubeletRootDir, c.StateDir = runtime.Endpoint(), runtime.Endpoint(), dir, dir, dir
	var log bytes.Buffer
	w := NewWatch(func() Options { return Options{Config: &c} }, func([]Lasting) {}, slog.New(slog.NewTextHandler(&log, nil)))
	if newest := w.look(t.Context()); !newest.IsZero() || len(w.Found()) > 0 || log.Len() > 0 {
		t.Fatalf("%v on a healthy node, log %s", w.Found(), &log)
	}
	runtime.Inject(fakecri.ListContainers, fakecri.Fault{Hang: true})
	w.look(t.Context())
	since := w.look(t.Context())
	if since.IsZero() || w.Healthy(0) == nil || w.Healthy(time.Hour) != nil || strings.Count(log.String(), "ListContainers") != 1 {
		t.Errorf("since %v, %v at once, %v after an hour; log %s", since, w.Healthy(0), w.Healthy(time.Hour), &log)
	}
	runtime.Heal()
	if newest := w.look(t.Context()); !newest.IsZero() || w.Healthy(0) != nil || !strings.Contains(log.String(), "as evictd needs them") {
		t.Errorf("healed: %v, log %s", w.Found(), &log)
	}
	former := probes
	t.Cleanup(func() { probes = former })
	tried, fails := 0, true
	probes = []probe{{name: "API server", daemon: watchEvery, once: true, deadline: deadline, try: func(_ context.Context, _ *node, f *Findings) {
		if tried++; fails {
			f.add(Error, "away")
		}
	}}}
	w = NewWatch(func() Options { return Options{Config: &c} }, func([]Lasting) {}, slog.New(slog.DiscardHandler))
	w.look(t.Context())
	w.look(t.Context())
	fails = false
	for range 3 {
		w.look(t.Context())
	}
	if tried != 3 {
		t.Errorf("the API server was tried %d times, want it until it answers", tried)
	}
	var none *Watch
	none.Again()
	if none.Found() != nil || none.Healthy(0) != nil {
		t.Error("a program that embeds evictd has findings")
	}
}

// A dry run that a reload ended had reported nothing outside of the log, and nothing was reported later.
func TestTheFirstFindingsAfterAReloadAreReported(t *testing.T) {
	former := probes
	t.Cleanup(func() { probes = former })
	probes = []probe{{name: "kubelet", daemon: watchEvery, deadline: deadline, try: func(_ context.Context, _ *node, f *Findings) { f.add(Warning, "differs") }}}
	synctest.Test(t, func(t *testing.T) {
		c, reported := config.Default(), 0
		w := NewWatch(func() Options { return Options{Config: &c} }, func(found []Lasting) { reported += len(found) }, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		for i, want := range []int{1, 1, 2} {
			if i == 2 {
				w.Again()
			} else {
				time.Sleep(time.Duration(i) * 3 * watchEvery)
			}
			synctest.Wait()
			if reported != want {
				t.Errorf("step %d: %d findings reported, want %d", i, reported, want)
			}
		}
		stop()
		<-done
	})
}

// A directory on a dead NFS server kept evictd check for ever.
func TestAProbeThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		p := probe{name: "state directory", deadline: deadline, try: func(context.Context, *node, *Findings) { <-free }}
		n := &node{Options: Options{left: new(hang.Left)}}
		began := time.Now()
		found := p.run(t.Context(), n)
		if took := time.Since(began); took != deadline+time.Second || len(found) != 1 || !strings.HasPrefix(found[0].Text, "state directory: no answer within 5s: ") {
			t.Errorf("%v after %v", found, took)
		}
		if again := p.run(t.Context(), n); len(again) != 1 || time.Since(began) != deadline+time.Second {
			t.Errorf("%v after %v, want it not tried while it hangs", again, time.Since(began))
		}
		close(free)
	})
}
