package loop

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/shared/eviction"
)

// causeWatchStarted is the cause of the wake that each new stream begins with.
const causeWatchStarted = "watch started"

// A family is the set of signals that a wake asks to look at: those that raise
// the same condition.
type family = eviction.Condition

// wakeBox holds the families that were woken since the loop last looked. A wake
// that comes while a pass runs stays in it and causes one more pass.
type wakeBox struct {
	notify chan struct{}

	mu    sync.Mutex
	woken map[family]string // with the cause of the first wake
}

func newWakeBox() *wakeBox {
	return &wakeBox{notify: make(chan struct{}, 1), woken: map[family]string{}}
}

func (b *wakeBox) put(f family, cause string) {
	b.mu.Lock()
	if _, ok := b.woken[f]; !ok {
		b.woken[f] = cause
	}
	b.mu.Unlock()
	select {
	case b.notify <- struct{}{}:
	default:
	}
}

func (b *wakeBox) take() map[family]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.woken) == 0 {
		return nil
	}
	woken := b.woken
	b.woken = map[family]string{}
	return woken
}

// watchKey identifies a stream: another process or other thresholds need
// another one.
type watchKey struct {
	plugin     string
	generation uint64
}

type watch struct {
	thresholds []eviction.WatchThreshold
	cancel     context.CancelFunc
}

// watches keeps one stream of wakes open per plugin that watches for us. It is
// used by the loop's goroutine only; the streams run beside it.
type watches struct {
	box     *wakeBox
	family  func(eviction.Signal) family
	log     *slog.Logger
	failed  func(plugin, call string, err error)
	streams map[watchKey]watch
	wg      sync.WaitGroup
}

// update opens, keeps and closes streams so that every threshold is watched by all
// who watch its signal. The one in charge is not enough: that it has fallen silent
// cannot be seen.
func (w *watches) update(ctx context.Context, roster Roster, thresholds []eviction.WatchThreshold) {
	wanted := map[watchKey][]eviction.WatchThreshold{}
	provider := map[watchKey]*supervisor.Instance{}
	for _, t := range thresholds {
		for _, p := range roster.Providers(t.Signal, eviction.CanWatch) {
			key := watchKey{p.Name, p.Generation}
			wanted[key] = append(wanted[key], t)
			provider[key] = p
		}
	}
	for key, have := range w.streams {
		if !slices.Equal(have.thresholds, wanted[key]) {
			have.cancel()
			delete(w.streams, key)
		}
	}
	for key, want := range wanted {
		if _, ok := w.streams[key]; ok {
			continue
		}
		wctx, cancel := context.WithCancel(ctx)
		w.streams[key] = watch{thresholds: want, cancel: cancel}
		w.wg.Go(func() { w.follow(wctx, provider[key], want) })
	}
}

// follow keeps a stream open until ctx ends. A crossing may have happened while
// no stream was open, so each start counts as a wake of all its families.
func (w *watches) follow(ctx context.Context, p *supervisor.Instance, thresholds []eviction.WatchThreshold) {
	families := map[family]bool{}
	for _, t := range thresholds {
		families[w.family(t.Signal)] = true
	}
	wake := func(k eviction.Wake) {
		if f := w.family(k.Signal); families[f] {
			w.box.put(f, k.Cause)
		}
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	for ctx.Err() == nil {
		for f := range maps.Keys(families) {
			w.box.put(f, causeWatchStarted)
		}
		started := time.Now()
		err := p.Plugin.Watcher.Watch(ctx, eviction.WatchRequest{Thresholds: thresholds}, wake)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, eviction.ErrUnsupported) {
			w.failed(p.Name, "watch", err)
			w.log.Warn("plugin does not watch, its thresholds are looked at on the interval only", "plugin", p.Name, "error", err)
			return
		}
		if time.Since(started) > wait.MaxInterval {
			wait.Reset()
		}
		if err != nil {
			w.failed(p.Name, "watch", err)
		}
		w.log.Warn("watch ended, opening it again", "plugin", p.Name, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// stop closes all streams and waits for their ends.
func (w *watches) stop() {
	for _, s := range w.streams {
		s.cancel()
	}
	clear(w.streams)
	w.wg.Wait()
}
