package supervisor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/output"
	"github.com/evictd/evictd/shared/launch"

	"github.com/evictd/evictd/test/harness/leaks"
)

// fewestAnswers is the least number of answers per second of a good plugin beside a bad one: a
// machine that is busy for itself leaves it some tens of milliseconds a call.
const fewestAnswers = 10

// Whatever a plugin does, its neighbor goes on answering, and nothing of it is left.
func TestBadNeighbors(t *testing.T) {
	requireRoot(t)
	for _, name := range []string{
		"leaks-descriptors", "floods-stderr", "floods-stdout", "returns-100-megabytes", "eats-memory", "spins", "forks",
		"forks-twice", "ignores-sigterm", "megabytes", "hangs-in-observe",
	} {
		t.Run(name, func(t *testing.T) {
			left := leaks.Now(t)
			h := startHost(t, install(t, name, "good"), shortStop)
			pass, good := h.pinned("good")
			before := callTimes(t, good, 50*time.Millisecond)
			var during []time.Duration
			p, bad := h.pinned(name)
			beside(t.Context(), p, bad, func() { during = callTimes(t, good, time.Second) })
			pass.Release()
			t.Logf("alone %s, beside it %s, at worst %s", before[len(before)/2], during[len(during)/2], during[len(during)-1])
			if len(during) < fewestAnswers {
				t.Errorf("%d answers beside it in a second, want %d", len(during), fewestAnswers)
			}
			begin := time.Now()
			h.stop()
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("the end took %s", took)
			}
			eventually(t, "no goroutine and no descriptor left", func() bool {
				return !leaks.Now(t).MoreThan(left)
			})
		})
	}
}

// beside calls a plugin that does not answer, and gives that up when f has returned.
func beside(ctx context.Context, p *registry.Pin, i *registry.Instance, f func()) {
	defer p.Release()
	ctx, giveUp := context.WithCancel(ctx)
	var call sync.WaitGroup
	call.Go(func() { _, _ = observe(ctx, i) })
	defer call.Wait()
	defer giveUp()
	f()
}

// callTimes calls an instance for some time and returns how long each call took,
// sorted. A call that fails is an error.
func callTimes(t *testing.T, i *registry.Instance, long time.Duration) []time.Duration {
	t.Helper()
	var times []time.Duration
	for end := time.Now().Add(long); time.Now().Before(end); {
		begin := time.Now()
		if _, err := observe(t.Context(), i); err != nil {
			t.Errorf("call of the good plugin: %v", err)
		}
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	return times
}

// A plugin that does nothing but write is not read faster than it may write, and
// its end is not waited for.
func TestFloodIsPaced(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	h := startHost(t, install(t, "floods-stderr"))
	p, i := h.pinned("floods-stderr")
	beside(t.Context(), p, i, func() {
		eventually(t, "lines are dropped", func() bool { return h.plugin("floods-stderr").Log != nil })
	})
	var log *output.Log
	h.call(func(c *controller) { log = c.plugins["floods-stderr"].log })
	begin, mark := time.Now(), log.Mark()
	<-time.After(2 * time.Second)
	lines := log.Mark() - mark
	rate := float64(lines) * 4100 / time.Since(begin).Seconds()
	if rate > 1.6*launch.ReadRate {
		t.Errorf("read %.0f bytes a second, want at most %d", rate, launch.ReadRate)
	}
}

// A plugin that floods the connection with pings took 72 % of a core from the host
// for as long as it liked.
func TestAPluginThatFloodsItsConnectionIsEnded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"floods-pings", "pings"} { // the other one sends as many as it may
		h := startHost(t, install(t, name), plain(name))
		p, i := h.pinned(name)
		_, _ = observe(t.Context(), i)
		p.Release()
		if name == "pings" {
			if _, err := observe(t.Context(), i); err != nil || h.plugin(name).LastError != "" {
				t.Errorf("a plugin that pings: %v, %+v", err, h.plugin(name))
			}
			continue
		}
		eventually(t, "it is told", func() bool {
			return strings.Contains(h.plugin(name).LastError, "it had sent more than 5000 control frames of HTTP/2 within a second")
		})
		eventually(t, "it is started again", func() bool { return h.plugin(name).Restarts > 0 })
	}
}
