package wake

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// key identifies a stream: another process or other thresholds need
// another one.
type key struct {
	plugin     string
	generation uint64
}

type stream struct {
	thresholds []eviction.WatchThreshold
	cancel     context.CancelFunc
}

// Streams keeps one stream of wakes open per plugin that watches for us. It is
// used by one goroutine; the streams run beside it.
type Streams struct {
	// Box takes the wakes. Condition is that of a signal, asked from any goroutine.
	Box       *Box
	Condition func(eviction.Signal) eviction.Condition
	Log       *slog.Logger
	// Failed counts a call of a plugin that has failed.
	Failed func(plugin, call string, err error)

	open map[key]stream
	wg   sync.WaitGroup
}

// Update opens, keeps and closes streams so that every threshold is watched by all
// who watch its signal. The one in charge is not enough: that it has fallen silent
// cannot be seen.
func (w *Streams) Update(ctx context.Context, watchers func(eviction.Signal) []*registry.Instance, thresholds []eviction.WatchThreshold) {
	wanted := map[key][]eviction.WatchThreshold{}
	provider := map[key]*registry.Instance{}
	for _, t := range thresholds {
		for _, p := range watchers(t.Signal) {
			k := key{p.Name, p.Generation}
			wanted[k] = append(wanted[k], t)
			provider[k] = p
		}
	}
	for k, have := range w.open {
		if !slices.Equal(have.thresholds, wanted[k]) {
			have.cancel()
			delete(w.open, k)
		}
	}
	if w.open == nil {
		w.open = map[key]stream{}
	}
	for k, want := range wanted {
		if _, ok := w.open[k]; ok {
			continue
		}
		sctx, cancel := context.WithCancel(ctx)
		w.open[k] = stream{thresholds: want, cancel: cancel}
		w.wg.Go(func() { w.follow(sctx, provider[k], want) })
	}
}

// follow keeps a stream open until ctx ends. A crossing may have happened while
// no stream was open, so each start counts as a wake of all its conditions.
func (w *Streams) follow(ctx context.Context, p *registry.Instance, thresholds []eviction.WatchThreshold) {
	conditions := map[eviction.Condition]bool{}
	for _, t := range thresholds {
		conditions[w.Condition(t.Signal)] = true
	}
	wake := func(k eviction.Wake) {
		if c := w.Condition(k.Signal); conditions[c] {
			w.Box.Put(c, k.Cause)
		}
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	for ctx.Err() == nil {
		for c := range conditions {
			w.Box.Put(c, CauseWatchStarted)
		}
		started := time.Now()
		err := p.Plugin.Watcher.Watch(ctx, eviction.WatchRequest{Thresholds: thresholds}, wake)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, eviction.ErrUnsupported) {
			w.Failed(p.Name, "watch", err)
			w.Log.Warn("plugin does not watch, its thresholds are looked at on the interval only", "plugin", p.Name, "error", err)
			return
		}
		if time.Since(started) > wait.MaxInterval {
			wait.Reset()
		}
		if err != nil {
			w.Failed(p.Name, "watch", err)
		}
		w.Log.Warn("watch ended, opening it again", "plugin", p.Name, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// Stop closes all streams and waits for their ends.
func (w *Streams) Stop() {
	for _, s := range w.open {
		s.cancel()
	}
	clear(w.open)
	w.wg.Wait()
}
