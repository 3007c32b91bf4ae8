// Package client calls a running plugin with deadlines, checks every reply, and counts unanswered
// and slow calls. It reports these to host/internal/pluginhost/supervisor, which acts on them.
//
// Every wait for a plugin has a deadline, also for an in-process one.
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
	// mostWakes bounds the wakes per second of a plugin. The host reacts to twenty at most.
	mostWakes = 500
	// mostProgress bounds the progress messages per second of a reclaim step.
	mostProgress = 10_000
)

// errFlood reports too many messages on a stream, which is then closed: reading costs the host as
// much as sending costs the plugin, and reading the backlog would take minutes.
func errFlood(of string, most int) error {
	return fmt.Errorf("%w: more than %d %s within a second", eviction.ErrInvalidReply, most, of)
}

// A Report describes a call's effect on the standing of the plugin.
type Report struct {
	// Failed is the latest error.
	Failed error
	// Unresponsive is set after too many consecutive calls without an answer.
	Unresponsive error
	// Delayed is the time that the host waited for an answer beyond the usual.
	Delayed time.Duration
	// Overspent: that was all the time that a decision may take.
	Overspent bool
}

// Config configures a Client.
type Config struct {
	Name     string
	Timeouts Timeouts
	// Doublings is the number of times to double the time limits of its first calls.
	Doublings int
	// Relays: its figures are those of the kubelet's summary.
	Relays bool
	// Configured plugins keep the configuration that they have.
	Configured bool
	// Ending describes how the plugin's process has ended, after waiting briefly for that; "" if it
	// has not. It is nil for an in-process plugin.
	Ending func() string
	// Report is called from the callers' goroutines.
	Report func(Report)
	// Took, if not nil, is called with the duration of each call but Watch.
	Took func(call string, took time.Duration)
	// Asked is shared by all clients.
	Asked *Asked
	Log   *slog.Logger
}

// A Client calls one process of a plugin, or an in-process plugin, with all its capabilities.
type Client struct {
	Config

	remote eviction.Plugin
	// reported holds the last configuration sent to the plugin.
	reported atomic.Pointer[eviction.ConfigureRequest]

	mu     sync.Mutex
	misses misses
	// failure is the last error, so that each is reported once.
	failure string
}

// New returns a client. Its plugin is unknown until Describe.
func New(c Config) *Client { return &Client{Config: c} }

// Plugin returns the plugin's description with the client as its capabilities.
func (c *Client) Plugin() *eviction.Plugin {
	p := c.remote
	// Only the supervisor configures plugins.
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
	if p.Meter != nil {
		p.Meter = c
	}
	return &p
}

// do makes one call with a deadline and records the result.
func (c *Client) do(ctx context.Context, kind string, limit time.Duration, f func(context.Context) error) error {
	took, err := c.timed(ctx, kind, limit, f)
	return c.conclude(kind, err, took, limit)
}

// timed makes one call with a deadline and reports how long the host waited.
func (c *Client) timed(ctx context.Context, kind string, limit time.Duration, f func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	watch := startWatch(limit)
	err := f(ctx)
	took, late := watch.stop(limit)
	c.tell(kind, took)
	if cost := delayCost(took, limit); cost > 0 && !late && !errors.Is(err, context.Canceled) {
		c.Report(Report{Delayed: cost})
	}
	return took, err
}

func (c *Client) tell(call string, took time.Duration) {
	if c.Took != nil {
		c.Took(call, took)
	}
}

// conclude counts a call for or against the plugin and adds the plugin and the call to the error.
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

func (c *Client) count(kind string, v verdict) {
	c.mu.Lock()
	tooMany := c.misses.add(kind, v)
	c.mu.Unlock()
	if tooMany {
		c.Report(Report{Unresponsive: fmt.Errorf("no answer to %d calls in a row, the last one %s", missesToKill, kind)})
	}
}

// Overspent records that the plugin used up the time of a decision. That counts as an unanswered
// call of its own kind, also if answers trickled in.
func (c *Client) Overspent(spent time.Duration) {
	c.Report(Report{Delayed: spent, Overspent: true})
	c.count("in time", missed)
}

// failed reports an error, and returns whether it is a new one.
func (c *Client) failed(err error) bool {
	c.Report(Report{Failed: err})
	c.mu.Lock()
	defer c.mu.Unlock()
	isNew := c.failure != err.Error()
	c.failure = err.Error()
	return isNew
}

// Observe asks for figures and returns the plausible ones.
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
	reply, wrong := checkObservations(req.Signals, c.remote.OwnsLayout, c.Relays, reply)
	if wrong != nil {
		wrong = fmt.Errorf("observe: %w: %w", eviction.ErrInvalidReply, wrong)
		if c.failed(wrong) {
			c.Log.Warn("plugin broke the contract", "plugin", c.Name, "error", wrong)
		}
	}
	return reply, nil
}

// Measure passes answers on as they arrive. Those before the deadline count, and a single one shows
// that the plugin is alive.
func (c *Client) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	var wrong error
	alive := false
	took, err := c.timed(ctx, "measure", c.Timeouts.Measure, func(ctx context.Context) error {
		return c.remote.Measurer.Measure(ctx, req, func(m eviction.Measurement) {
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

// Watch passes on wakes for the requested signals until ctx ends, or the plugin sends too many. It
// has no deadline: a quiet node has no wakes.
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
		if ctx.Err() == nil || errors.Is(err, eviction.ErrInvalidReply) { // the host did not end it
			c.failed(err)
		}
		return err
	}
	return nil
}

// Rank asks for an order and rejects one that contains a pod twice, or one that is not a candidate.
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

// Reclaim runs a step as long as it makes progress, within its deadline.
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
	c.tell("reclaim", took)
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

// Metrics asks for the plugin's own metrics. No eviction waits for these, so that a late or missing answer does not
// count against the plugin.
func (c *Client) Metrics(ctx context.Context) ([]eviction.Metric, error) {
	ctx, cancel := context.WithTimeout(ctx, eviction.MetricsDeadline)
	defer cancel()
	begin := time.Now()
	all, err := c.remote.Meter.Metrics(ctx)
	c.tell("metrics", time.Since(begin))
	if err != nil {
		return nil, fmt.Errorf("plugin %s: metrics: %w", c.Name, err)
	}
	return all, nil
}
