package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
)

func TestKilledPluginIsBackSoon(t *testing.T) {
	h := startHost(t, install(t, "good"))
	before := h.plugin("good")
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var pause time.Duration
	eventually(t, "good runs again", func() bool {
		s := h.plugin("good")
		if s.State == Backoff {
			pause = s.Until.Sub(s.Since)
		}
		return s.State == Running && s.Generation != before.Generation
	})
	if pause <= 0 || pause > time.Second {
		t.Errorf("it was to be started again after %s, want some of a second", pause)
	}
	after := h.plugin("good")
	if after.Restarts != 1 || after.PID == before.PID {
		t.Errorf("restarts %d, pid %d, want 1 and another than %d", after.Restarts, after.PID, before.PID)
	}
	want(t, after.LastError, "exited by itself (signal: killed)")
}

func TestCallFailsAtOnceWhenThePluginCrashes(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "crashes-in-observe"))
	p, i := h.pinned("crashes-in-observe")
	defer p.Release()
	begin := time.Now()
	_, err := observe(t.Context(), i)
	if !errors.Is(err, eviction.ErrUnavailable) {
		t.Errorf("got %v, want that it is unavailable", err)
	}
	if took := time.Since(begin); took > h.control.Timeouts.Observe/2 {
		t.Errorf("the call took %s, want it to fail at once", took)
	}
	eventually(t, "it is started again", func() bool { return h.plugin(i.Name).Restarts > 0 })
	want(t, strings.Join(h.plugin(i.Name).Log, "\n"), "invalid memory address or nil pointer dereference")
}

func TestStoppedPluginIsKilledAfterThreeDeadlines(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good"), func(o *Options) { o.Timeouts.Observe = 200 * time.Millisecond })
	p, i := h.pinned("good")
	suspend(t, i.PID)
	// A loaded machine may be late itself, and such timeouts do not count.
	timeouts := 0
	eventually(t, "it is condemned", func() bool {
		timeouts++
		if _, err := observe(t.Context(), i); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want a timeout", err)
		}
		next := h.Pin()
		defer next.Release()
		return len(next.Instances()) == 0
	})
	if timeouts < 3 {
		t.Errorf("condemned after %d timeouts, want %d", timeouts, 3)
	}
	if syscall.Kill(i.PID, 0) != nil {
		t.Error("killed while a pass had it pinned")
	}
	p.Release()
	eventually(t, "another process runs", func() bool {
		s := h.plugin("good")
		return s.State == Running && s.PID != i.PID
	})
	want(t, h.plugin("good").LastError, "no answer to 3 calls in a row, the last one observe")
}

func TestCallersOwnDeadlineIsNotHeldAgainstThePlugin(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "hangs-in-rank"))
	p, i := h.pinned("hangs-in-rank")
	defer p.Release()
	for range 3 + 1 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := i.Plugin.Ranker.Rank(ctx, eviction.RankRequest{Signal: i.Plugin.Signals[0].Signal})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want a timeout", err)
		}
	}
	if s := h.plugin(i.Name); s.PID != i.PID {
		t.Errorf("pid %d, want it left alone", s.PID)
	}
}

func TestHangingInOneKindOfCallIsEnough(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "hangs-in-rank"), func(o *Options) { o.Timeouts.Rank = 200 * time.Millisecond })
	_, i := h.pinned("hangs-in-rank") // Never released: condemning does not wait.
	eventually(t, "it is condemned", func() bool {
		if _, err := observe(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		_, _ = i.Plugin.Ranker.Rank(t.Context(), eviction.RankRequest{Signal: i.Plugin.Signals[0].Signal})
		next := h.Pin()
		defer next.Release()
		return len(next.Instances()) == 0
	})
}

func TestQuarantineAndSecondChance(t *testing.T) {
	t.Parallel()
	p := restartPolicy{first: 5 * time.Millisecond, longest: 20 * time.Millisecond, crashes: 3, window: time.Hour, stable: time.Minute}
	h := startWithPolicy(t, p, install(t, "exits"))
	eventually(t, "it is in quarantine", func() bool { return h.plugin("exits").State == Quarantined })
	if got := h.plugin("exits").Restarts; got != 2 {
		t.Errorf("%d restarts, want quarantine after 3 crashes", got)
	}
	want(t, strings.Join(h.plugin("exits").Log, "\n"), "no reason to live")
	want(t, h.log.String(), "plugin in quarantine", "exited before the handshake (exit status 3)")
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new configuration is another chance", func() bool {
		s := h.plugin("exits")
		return s.Restarts == 5 && s.State == Quarantined
	})
	h.call(func(c *controller) { c.plugins["exits"].pause.Reset(0) }) // it is over
	eventually(t, "time is another chance too", func() bool { return h.plugin("exits").Restarts > 5 })
}

func TestEndWithStubbornPlugins(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "ignores-sigterm", "leaves-child", "stopped", "good"), shortStop)
	suspend(t, h.plugin("stopped").PID)
	if got := len(processesOf(h.sockets)); got != 5 {
		t.Fatalf("%d processes run, want 4 plugins and a child", got)
	}
	begin := time.Now()
	h.stop()
	if took := time.Since(begin); took > 3*time.Second && strict() {
		t.Errorf("the end took %s, want a bit more than the grace of 300ms", took)
	}
}

func TestChildDiesWithThePlugin(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "leaves-child"))
	before := h.plugin("leaves-child")
	_ = syscall.Kill(before.PID, syscall.SIGKILL)
	eventually(t, "only the new plugin and its child run", func() bool {
		s := h.plugin("leaves-child")
		return s.State == Running && s.PID != before.PID && len(processesOf(h.sockets)) == 2
	})
}

func TestOutput(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "megabytes", "bad-log-record", "prints"))
	for _, s := range h.Status() {
		if s.State != Running {
			t.Errorf("%s is %s (%s), want it to run whatever it writes", s.Name, s.State, s.Reason)
		}
	}
	p, i := h.pinned("prints")
	defer p.Release()
	if _, err := observe(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what a handler prints is logged", func() bool { return strings.Contains(h.log.String(), "printed from a handler") })
	eventually(t, "an endless line is kept once, cut", func() bool {
		cut := slices.DeleteFunc(h.plugin("megabytes").Log, func(line string) bool { return !strings.HasPrefix(line, "xxx") })
		return len(cut) == 1 && len(cut[0]) < 2<<10+20 && strings.HasSuffix(cut[0], "... (cut)")
	})
	if got := len(h.plugin("megabytes").Log); got > launch.KeptLines {
		t.Errorf("%d lines kept, want at most %d", got, launch.KeptLines)
	}
	if got := len(h.log.String()); got > 1<<20 {
		t.Errorf("%d bytes were logged, want much less than the megabytes that were written", got)
	}
}
