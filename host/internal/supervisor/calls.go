package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A call is a kind of call to a plugin.
type call uint8

const (
	callObserve call = iota
	callMeasure
	callRank
	callReclaim
	numCalls
)

func (c call) String() string { return [...]string{"observe", "measure", "rank", "reclaim"}[c] }

var errNoProgress = fmt.Errorf("no progress: %w", context.DeadlineExceeded)

// guard puts deadlines around the calls of a running plugin and checks its
// replies. It has the methods of all capabilities.
type guard struct{ *Instance }

// guarded returns the plugin with guarded calls for what it offers.
func (i *Instance) guarded(p eviction.Plugin) *eviction.Plugin {
	g := guard{i}
	// Configuring belongs to the supervisor.
	p.Configurer = nil
	if p.Observer != nil {
		p.Observer = g
	}
	if p.Measurer != nil {
		p.Measurer = g
	}
	if p.Watcher != nil {
		p.Watcher = g
	}
	if p.Ranker != nil {
		p.Ranker = g
	}
	if p.Reclaimer != nil {
		p.Reclaimer = g
	}
	return &p
}

// do makes one call with a deadline and takes note of how it went.
func (g guard) do(ctx context.Context, c call, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	watch := startWatch(limit)
	err := f(ctx)
	g.supervisor.delayed(g.Instance, watch, limit, err)
	return g.settle(c, err, time.Since(watch.start), limit)
}

// settle counts a call for or against the plugin and names both in its error.
func (g guard) settle(c call, err error, took, limit time.Duration) error {
	v := judge(err, took, limit)
	g.supervisor.count(g.Instance, c, v)
	if err == nil {
		return nil
	}
	if v == missed && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: %w", limit, err)
	}
	err = fmt.Errorf("plugin %s: %s: %w", g.Name, c, err)
	if v != excused {
		g.supervisor.blame(g.Instance, err)
	}
	return err
}

// Observe asks for figures and keeps those that can be.
func (g guard) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	g.supervisor.asked.Store(&req.PassView)
	var reply eviction.ObserveReply
	err := g.do(ctx, callObserve, g.supervisor.timeouts.Observe, func(ctx context.Context) (err error) {
		reply, err = g.remote.Observer.Observe(ctx, req)
		return err
	})
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	reply, wrong := checkObservations(req.Signals, g.remote.OwnsLayout, g.relays(), reply)
	if wrong != nil {
		wrong = fmt.Errorf("observe: %w: %w", eviction.ErrInvalidReply, wrong)
		if g.supervisor.blame(g.Instance, wrong) {
			g.supervisor.log.Warn("plugin broke the contract", "plugin", g.Name, "error", wrong)
		}
	}
	return reply, nil
}

// Measure passes answers on as they come. Those that came before the deadline
// count, and one of them is enough of a sign of life.
func (g guard) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	return g.measure(ctx, emit, func(ctx context.Context, emit func(eviction.Measurement)) error {
		return g.remote.Measurer.Measure(ctx, req, emit)
	})
}

// measure makes one call that measures.
func (g guard) measure(ctx context.Context, emit func(eviction.Measurement), call func(context.Context, func(eviction.Measurement)) error) error {
	var wrong error
	alive := false
	limit := g.supervisor.timeouts.Measure
	watch := startWatch(limit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(ctx, func(m eviction.Measurement) {
		alive = true
		if bad := checkMeasurement(&m); bad != nil && wrong == nil {
			wrong = bad
		}
		emit(m)
	})
	g.supervisor.delayed(g.Instance, watch, limit, err)
	if alive && errors.Is(err, context.DeadlineExceeded) {
		g.supervisor.count(g.Instance, callMeasure, answered)
		return fmt.Errorf("plugin %s: measure: incomplete: %w", g.Name, err)
	}
	return g.settle(callMeasure, errors.Join(err, wrong), time.Since(watch.start), limit)
}

// MeasureAndRank is Measure and Rank in one call, each with its own checks. Once
// all pods are answered the ranking has the time of Rank, as long as Measure's own
// lasts. A ranking that did not come for another reason is left to Rank. A plugin
// in this process only measures, as there is no way that rows could be spared.
func (g guard) MeasureAndRank(ctx context.Context, req eviction.MeasureRequest, rank eviction.RankRequest, emit func(eviction.Measurement)) (eviction.Ranking, error) {
	remote, ok := g.remote.Measurer.(eviction.MeasureRanker)
	if !ok {
		return eviction.Ranking{}, g.Measure(ctx, req, emit)
	}
	var (
		ranking  eviction.Ranking
		left     = len(req.Pods)
		measured time.Time // when left came to be 0
		limit    = g.supervisor.timeouts.Rank
		hangs    bool
	)
	err := g.measure(ctx, emit, func(ctx context.Context, emit func(eviction.Measurement)) (err error) {
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
		ranking.Err = g.settle(callRank, context.DeadlineExceeded, took, limit)
	case ranking.Order != nil:
		ranking.Err = g.settle(callRank, checkRanking(len(req.Pods), func(i int) string { return req.Pods[i].UID }, ranking.Order), took, limit)
	}
	return ranking, err
}

// Watch passes on wakes for signals that were asked for until ctx ends, or the
// plugin sends too many. It has no deadline: silence is what a quiet node sounds
// like.
func (g guard) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	asked := make(map[eviction.Signal]bool, len(req.Thresholds))
	for _, t := range req.Thresholds {
		asked[t.Signal] = true
	}
	ctx, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	wakes := flood{of: "wakes", most: mostWakes}
	err := g.remote.Watcher.Watch(ctx, req, func(w eviction.Wake) {
		if tooMany := wakes.add(time.Now()); tooMany != nil {
			hangUp(tooMany)
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
		err = fmt.Errorf("plugin %s: watch: %w", g.Name, err)
		if ctx.Err() == nil || errors.Is(err, eviction.ErrInvalidReply) { // not the host's own wish
			g.supervisor.blame(g.Instance, err)
		}
		return err
	}
	return nil
}

// Rank asks for an order and refuses one that names a pod that is no candidate,
// or one twice.
func (g guard) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	var ranked []eviction.Ranked
	err := g.do(ctx, callRank, g.supervisor.timeouts.Rank, func(ctx context.Context) (err error) {
		if ranked, err = g.remote.Ranker.Rank(ctx, req); err != nil {
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
func (g guard) Reclaim(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	idle, limit := g.supervisor.timeouts.ReclaimIdle, g.supervisor.timeouts.Reclaim
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(idle, func() { cancel(errNoProgress) })
	defer timer.Stop()

	begin := time.Now()
	last := begin
	told := flood{of: "messages of progress", most: mostProgress}
	freed, err := g.remote.Reclaimer.Reclaim(ctx, req, func(r eviction.Reclaimed) {
		last = time.Now()
		if tooMany := told.add(last); tooMany != nil {
			cancel(tooMany)
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
	return checkReclaimed(freed), g.settle(callReclaim, err, took, deadline)
}
