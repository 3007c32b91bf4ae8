package wake

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// CauseWatchStarted is the cause of the wake that each new stream begins with.
const CauseWatchStarted = "watch started"

// A Watched is a threshold to be watched, and the condition that its signal wakes.
type Watched struct {
	eviction.WatchThreshold

	Condition eviction.Condition
}

// A stream is open with one process: another one, or other thresholds, need another.
type stream struct {
	watched []Watched
	cancel  context.CancelFunc
}

// Streams keeps one stream of wakes open per plugin that watches for us, and joins the
// wakes: it has the conditions that were woken since the last look, all signals
// that raise the same one together. Update and Stop are for one goroutine.
type Streams struct {
	log    *slog.Logger
	near   func(context.Context, eviction.Condition)
	failed func(plugin, call string, err error)

	notify chan struct{}
	open   map[*registry.Instance]stream
	wg     sync.WaitGroup

	mu    sync.Mutex
	woken map[eviction.Condition]string // with the cause of the first wake
}

// NewStreams returns streams of which none is open. failed counts a call of a plugin. near is called, in a
// goroutine of its own, when a plugin says that a threshold of a condition is near.
func NewStreams(log *slog.Logger, failed func(plugin, call string, err error), near func(context.Context, eviction.Condition)) *Streams {
	return &Streams{log: log, failed: failed, near: near, notify: make(chan struct{}, 1), open: map[*registry.Instance]stream{}, woken: map[eviction.Condition]string{}}
}

// Notify delivers a value when something was woken.
func (w *Streams) Notify() <-chan struct{} { return w.notify }

// Take returns what was woken, by condition and with the causes.
func (w *Streams) Take() map[eviction.Condition]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken := w.woken
	w.woken = map[eviction.Condition]string{}
	return woken
}

func (w *Streams) put(c eviction.Condition, cause string) {
	w.mu.Lock()
	if _, ok := w.woken[c]; !ok {
		w.woken[c] = cause
	}
	w.mu.Unlock()
	select {
	case w.notify <- struct{}{}:
	default:
	}
}

// Update opens, keeps and closes streams so that every threshold is watched by all
// who watch its signal. The one in charge is not enough: that it has fallen silent
// cannot be seen.
func (w *Streams) Update(ctx context.Context, watchers func(eviction.Signal) []*registry.Instance, watched []Watched) {
	wanted := map[*registry.Instance][]Watched{}
	for _, t := range watched {
		for _, p := range watchers(t.Signal) {
			wanted[p] = append(wanted[p], t)
		}
	}
	for p, have := range w.open {
		if !slices.Equal(have.watched, wanted[p]) {
			have.cancel()
			delete(w.open, p)
		}
	}
	for p, want := range wanted {
		if _, ok := w.open[p]; ok {
			continue
		}
		sctx, cancel := context.WithCancel(ctx)
		w.open[p] = stream{want, cancel}
		w.wg.Go(func() { w.follow(sctx, p, want) })
	}
}

// follow keeps a stream open until ctx ends. A crossing may have happened while
// no stream was open, so each start counts as a wake of all its conditions.
func (w *Streams) follow(ctx context.Context, p *registry.Instance, watched []Watched) {
	conditions := map[eviction.Signal]eviction.Condition{}
	var request eviction.WatchRequest
	for _, t := range watched {
		conditions[t.Signal] = t.Condition
		request.Thresholds = append(request.Thresholds, t.WatchThreshold)
	}
	wake := func(k eviction.Wake) {
		switch c, watched := conditions[k.Signal]; {
		case !watched:
		case k.Cause == eviction.CauseNear:
			w.wg.Go(func() { w.near(ctx, c) })
		default:
			w.put(c, k.Cause)
		}
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	for ctx.Err() == nil {
		for _, c := range conditions {
			w.put(c, CauseWatchStarted)
		}
		started := time.Now()
		err := p.Plugin.Watcher.Watch(ctx, request, wake)
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

// Stop closes all streams and waits for their ends.
func (w *Streams) Stop() {
	for _, s := range w.open {
		s.cancel()
	}
	clear(w.open)
	w.wg.Wait()
}
