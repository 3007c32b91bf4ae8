package inspect

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
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
	var none *Watch
	none.Again()
	if none.Found() != nil || none.Healthy(0) != nil {
		t.Error("a program that embeds evictd has findings")
	}
}

// A local error that lasted made each evictd of a fleet inspect the API server each minute.
func TestTheInspectionOfTheAPIServerHasItsOwnPace(t *testing.T) {
	former := probes
	t.Cleanup(func() { probes = former })
	failing := func(l Level) func(context.Context, *node, *Findings) {
		return func(_ context.Context, _ *node, f *Findings) { f.add(l, "is wrong") }
	}
	for name, c := range map[string]struct {
		api         func(context.Context, *node, *Findings)
		least, most int // inspections in ten hours
		reload      bool
	}{
		"no finding":            {func(context.Context, *node, *Findings) {}, 1, 1, false},
		"a warning":             {failing(Warning), 7, 10, false},
		"advice":                {failing(Advice), 7, 10, false},
		"an error":              {failing(Error), 18, 26, false},
		"a warning, and reload": {failing(Warning), 8, 11, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tried := time.Now(), []time.Duration(nil)
				probes = []probe{
					{name: "plugin directory", daemon: watchEvery, deadline: deadline, try: failing(Error)},
					{name: apiServer, requests: true, deadline: deadline, try: func(ctx context.Context, n *node, f *Findings) {
						tried = append(tried, time.Since(began))
						c.api(ctx, n, f)
					}},
				}
				cfg := config.Default()
				w := NewWatch(func() Options { return Options{Config: &cfg} }, func([]Lasting) {}, slog.New(slog.DiscardHandler))
				ctx, stop := context.WithTimeout(t.Context(), 10*time.Hour)
				defer stop()
				if c.reload {
					time.AfterFunc(5*time.Hour, w.Again)
				}
				w.Run(ctx)
				if len(tried) < c.least || len(tried) > c.most || tried[0] >= apiSpread {
					t.Errorf("%d inspections of the API server at %v, want %d to %d, the first within %v", len(tried), tried, c.least, c.most, apiSpread)
				}
			})
		})
	}
}

// Evictds that start together, or reload a ConfigMap together, inspected the API server together.
func TestManyEvictdsDoNotInspectTogether(t *testing.T) {
	const fleet = 100
	bins := map[time.Duration]int{}
	synctest.Test(t, func(t *testing.T) {
		for range fleet {
			var p pace
			p.begin()
			bins[time.Until(p.next).Truncate(time.Second)]++
			p.after(Findings{{Level: Error}})
			bins[time.Until(p.next).Truncate(time.Second)]++
		}
	})
	for second, n := range bins {
		if n > fleet/5 {
			t.Errorf("%d of %d evictds inspect in one second, %v later", n, fleet, second)
		}
	}
}

// The inspection of a daemon listed the pods that the daemon had listed already.
func TestADaemonsInspectionWaitsForTheDaemonsList(t *testing.T) {
	former := probes
	t.Cleanup(func() { probes = former })
	synctest.Test(t, func(t *testing.T) {
		type list struct {
			done bool
			err  error
		}
		var of atomic.Pointer[list]
		var tried atomic.Int64
		of.Store(&list{})
		probes = []probe{{name: apiServer, requests: true, deadline: deadline, try: func(ctx context.Context, n *node, f *Findings) {
			if _, err := podsOf(ctx, n.Options, nil); err != nil {
				f.addAll(Error, err)
				return
			}
			tried.Add(1)
		}}}
		c := config.Default()
		w := NewWatch(func() Options {
			return Options{Config: &c, Listed: func() ([]*v1.Pod, bool, error) { return nil, of.Load().done, of.Load().err }}
		}, func([]Lasting) {}, slog.New(slog.DiscardHandler))
		go w.Run(t.Context())
		at := func(after time.Duration, requests int64, findings int) {
			time.Sleep(after)
			synctest.Wait()
			if tried.Load() != requests || len(w.Found()) != findings {
				t.Errorf("after %v %d inspections and %v, want %d and %d", after, tried.Load(), w.Found(), requests, findings)
			}
		}
		at(2*apiSpread, 0, 0)
		of.Store(&list{err: errors.New("connection refused")})
		at(watchOften, 0, 1)
		at(5*time.Hour, 0, 1)
		of.Store(&list{done: true})
		at(watchOften, 1, 0)
		at(5*time.Hour, 1, 0)
	})
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

// A directory on a dead NFS server kept evictctl check for ever.
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
