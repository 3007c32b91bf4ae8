package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/evictd/evictd/shared/eviction"
)

var errNoProgress = fmt.Errorf("no progress: %w", context.DeadlineExceeded)

const (
	// mostWakes bounds the wakes per second of a plugin. The host looks twenty times a second at
	// most, however many it receives.
	mostWakes = 500
	// mostProgress bounds the progress messages per second of a reclaim step.
	mostProgress = 10_000
)

// errFlood reports too many messages of one stream, which is not listened to any
// longer: reading costs the host as much as sending costs the plugin, and what has been
// sent would be read for minutes after.
func errFlood(of string, most int) error {
	return fmt.Errorf("%w: more than %d %s within a second", eviction.ErrInvalidReply, most, of)
}

// A Report is sent after a call, with its effect on the plugin's standing.
type Report struct {
	// Failed is the latest thing that went wrong.
	Failed error
	// Unresponsive is set when too many calls in a row had no answer.
	Unresponsive error
	// Delayed is the time that the host has waited for an answer beyond the usual.
	Delayed time.Duration
}

// Config configures a Client.
type Config struct {
	Name     string
	Timeouts Timeouts
	// Doublings is the number of times that the limits of the calls at its start are doubled.
	Doublings int
	// Builtin plugins may relay the kubelet's figures.
	Builtin bool
	// Ending returns how the plugin's process has ended, after a moment for it to
	// do so; "" if it has not. It is nil for a plugin of the host's own process.
	Ending func() string
	// Report is called from the goroutines of those who call.
	Report func(Report)
	// Asked is shared by all clients.
	Asked *Asked
	Log   *slog.Logger
}

// A Client calls one process of a plugin, or one of the host's own. It has the
// methods of all capabilities.
type Client struct {
	Config

	remote eviction.Plugin
	// relays: the plugin's figures are those of the kubelet's summary.
	relays atomic.Bool
	// reported holds the last configuration sent to the plugin.
	reported atomic.Pointer[eviction.ConfigureRequest]

	mu     sync.Mutex
	misses misses
	// failure is the last one, for each to be reported once.
	failure string
}

// New returns a client. Its plugin is not known before Describe.
func New(c Config) *Client { return &Client{Config: c} }

// Plugin returns the plugin with calls through the client for what it offers.
func (c *Client) Plugin() *eviction.Plugin {
	p := c.remote
	// Configuring belongs to the supervisor.
	p.Configurer = nil
	if p.Observer != nil {
		p.Observer = c
	}
	if p.Measurer != nil {
		p.Measurer = c
	}
	if p.Watcher != nil {
		p.Watcher = c
	}
	if p.Ranker != nil {
		p.Ranker = c
	}
	if p.Reclaimer != nil {
		p.Reclaimer = c
	}
	return &p
}

// do makes one call with a deadline and takes note of how it went.
func (c *Client) do(ctx context.Context, kind string, limit time.Duration, f func(context.Context) error) error {
	took, err := c.timed(ctx, limit, f)
	return c.conclude(kind, err, took, limit)
}

// timed makes one call with a deadline and takes note of how long the host has waited
// for the answer.
func (c *Client) timed(ctx context.Context, limit time.Duration, f func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	watch := startWatch(limit)
	err := f(ctx)
	took, late := watch.stop(limit)
	if cost := delayCost(took, limit); cost > 0 && !late && !errors.Is(err, context.Canceled) {
		c.Report(Report{Delayed: cost})
	}
	return took, err
}

// conclude counts a call for or against the plugin and names both in its error.
func (c *Client) conclude(kind string, err error, took, limit time.Duration) error {
	v := judge(err, took, limit)
	c.count(kind, v)
	if err == nil {
		return nil
	}
	if v == missed && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: %w", limit, err)
	}
	err = fmt.Errorf("plugin %s: %s: %w", c.Name, kind, err)
	if v != excused {
		c.failed(err)
	}
	return err
}

// count takes note of whether a call was answered.
func (c *Client) count(kind string, v verdict) {
	c.mu.Lock()
	tooMany := c.misses.add(kind, v)
	c.mu.Unlock()
	if tooMany {
		c.Report(Report{Unresponsive: fmt.Errorf("no answer to %d calls in a row, the last one %s", missesToKill, kind)})
	}
}

// failed takes note of what went wrong, and reports whether it is something new.
func (c *Client) failed(err error) bool {
	c.Report(Report{Failed: err})
	c.mu.Lock()
	defer c.mu.Unlock()
	isNew := c.failure != err.Error()
	c.failure = err.Error()
	return isNew
}

// Observe asks for figures and keeps those that can be.
func (c *Client) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	c.Asked.Store(&req.PassView)
	var reply eviction.ObserveReply
	err := c.do(ctx, "observe", c.Timeouts.Observe, func(ctx context.Context) (err error) {
		reply, err = c.remote.Observer.Observe(ctx, req)
		return err
	})
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	reply, wrong := checkObservations(req.Signals, c.remote.OwnsLayout, c.relays.Load(), reply)
	if wrong != nil {
		wrong = fmt.Errorf("observe: %w: %w", eviction.ErrInvalidReply, wrong)
		if c.failed(wrong) {
			c.Log.Warn("plugin broke the contract", "plugin", c.Name, "error", wrong)
		}
	}
	return reply, nil
}

// Measure passes answers on as they come. Those that came before the deadline
// count, and one of them is enough of a sign of life.
func (c *Client) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	return c.measure(ctx, emit, func(ctx context.Context, emit func(eviction.Measurement)) error {
		return c.remote.Measurer.Measure(ctx, req, emit)
	})
}

// measure makes one call that measures.
func (c *Client) measure(ctx context.Context, emit func(eviction.Measurement), call func(context.Context, func(eviction.Measurement)) error) error {
	var wrong error
	alive := false
	took, err := c.timed(ctx, c.Timeouts.Measure, func(ctx context.Context) error {
		return call(ctx, func(m eviction.Measurement) {
			alive = true
			if bad := checkMeasurement(&m); bad != nil && wrong == nil {
				wrong = bad
			}
			emit(m)
		})
	})
	if alive && errors.Is(err, context.DeadlineExceeded) {
		c.count("measure", answered)
		return fmt.Errorf("plugin %s: measure: incomplete: %w", c.Name, err)
	}
	return c.conclude("measure", errors.Join(err, wrong), took, c.Timeouts.Measure)
}

// MeasureAndRank does Measure and Rank in one call, each with its own checks. Once
// all pods are answered the ranking has the time of Rank, as long as Measure's own
// lasts. A ranking that did not come for another reason is left to Rank.
func (c *Client) MeasureAndRank(ctx context.Context, req eviction.MeasureRequest, rank eviction.RankRequest, emit func(eviction.Measurement)) (eviction.Ranking, error) {
	remote, ok := c.remote.Measurer.(eviction.MeasureRanker)
	if !ok {
		return eviction.Ranking{}, c.Measure(ctx, req, emit)
	}
	var (
		ranking  eviction.Ranking
		left     = len(req.Pods)
		measured time.Time // when left came to be 0
		limit    = c.Timeouts.Rank
		hangs    bool
	)
	err := c.measure(ctx, emit, func(ctx context.Context, emit func(eviction.Measurement)) (err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var late *time.Timer
		ranking, err = remote.MeasureAndRank(ctx, req, rank, func(m eviction.Measurement) {
			emit(m)
			if left--; left == 0 {
				measured = time.Now()
				late = time.AfterFunc(limit, cancel)
			}
		})
		hangs = late != nil && !late.Stop() && ranking.Order == nil
		if hangs { // The measurements are all there.
			return nil
		}
		return err
	})
	took := time.Since(measured)
	switch {
	case hangs:
		ranking.Err = c.conclude("rank", context.DeadlineExceeded, took, limit)
	case ranking.Order != nil:
		ranking.Err = c.conclude("rank", checkRanking(len(req.Pods), func(i int) string { return req.Pods[i].UID }, ranking.Order), took, limit)
	}
	return ranking, err
}

// Watch passes on wakes for signals that were asked for until ctx ends, or the
// plugin sends too many. It has no deadline: a quiet
// node has no wakes.
func (c *Client) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	asked := make(map[eviction.Signal]bool, len(req.Thresholds))
	for _, t := range req.Thresholds {
		asked[t.Signal] = true
	}
	ctx, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	wakes := rate.NewLimiter(mostWakes, mostWakes)
	err := c.remote.Watcher.Watch(ctx, req, func(w eviction.Wake) {
		if !wakes.Allow() {
			hangUp(errFlood("wakes", mostWakes))
			return
		}
		if asked[w.Signal] {
			w.Cause = shorten(w.Cause, maxNameBytes)
			wake(w)
		}
	})
	if tooMany := context.Cause(ctx); errors.Is(tooMany, eviction.ErrInvalidReply) {
		err = tooMany
	}
	if err != nil {
		err = fmt.Errorf("plugin %s: watch: %w", c.Name, err)
		if ctx.Err() == nil || errors.Is(err, eviction.ErrInvalidReply) { // not the host's own wish
			c.failed(err)
		}
		return err
	}
	return nil
}

// Rank asks for an order and refuses one that names a pod that is no candidate,
// or one twice.
func (c *Client) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	var ranked []eviction.Ranked
	err := c.do(ctx, "rank", c.Timeouts.Rank, func(ctx context.Context) (err error) {
		if ranked, err = c.remote.Ranker.Rank(ctx, req); err != nil {
			return err
		}
		return checkRanking(len(req.Candidates), func(i int) string { return req.Candidates[i].Pod.UID }, ranked)
	})
	if err != nil {
		return nil, err
	}
	return ranked, nil
}

// Reclaim runs a step for as long as it makes progress.
func (c *Client) Reclaim(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	idle, limit := c.Timeouts.ReclaimIdle, c.Timeouts.Reclaim
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(idle, func() { cancel(errNoProgress) })
	defer timer.Stop()

	begin := time.Now()
	last := begin
	messages := rate.NewLimiter(mostProgress, mostProgress)
	released, err := c.remote.Reclaimer.Reclaim(ctx, req, func(r eviction.Reclaimed) {
		last = time.Now()
		if !messages.Allow() {
			cancel(errFlood("messages of progress", mostProgress))
			return
		}
		timer.Reset(idle)
		progress(checkReclaimed(r))
	})
	took, deadline := time.Since(begin), limit
	if err != nil {
		switch why := context.Cause(ctx); {
		case errors.Is(why, errNoProgress):
			err = errNoProgress
			took, deadline = time.Since(last), idle
		case errors.Is(why, eviction.ErrInvalidReply):
			err = why
		}
	}
	return checkReclaimed(released), c.conclude("reclaim", err, took, deadline)
}
