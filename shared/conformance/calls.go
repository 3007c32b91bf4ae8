package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// configureWith sends a config that is to be refused.
func (t *target) configureWith(ctx context.Context, config []byte) error {
	return t.options.within(ctx, configureTime, func(ctx context.Context) error {
		return t.plugin.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: t.node, Config: config})
	})
}

func (t *target) observe(ctx context.Context, view eviction.View, signals ...eviction.Signal) (eviction.ObserveReply, error) {
	var reply eviction.ObserveReply
	err := t.options.within(ctx, observeTime, func(ctx context.Context) (err error) {
		reply, err = t.plugin.Observer.Observe(ctx, eviction.ObserveRequest{PassView: eviction.PassView{Pass: 1, View: view}, Signals: signals})
		return err
	})
	return reply, err
}

func (t *target) observeAll(ctx context.Context) ([]eviction.Observation, error) {
	reply, err := t.observe(ctx, eviction.ViewBefore, t.offering(eviction.CanObserve)...)
	return reply.Observations, err
}

// measure calls Measure and keeps the answers as they came.
func (t *target) measure(ctx context.Context, limit time.Duration, request message) *transcript {
	got := &transcript{}
	got.err = t.options.within(ctx, limit, func(ctx context.Context) error {
		var wrong error
		err := stream(ctx, t.cc, service+"Measure", request, func(raw []byte) {
			rows, ranked, err := parseMeasurements(raw)
			wrong = errors.Join(wrong, err)
			got.messages = append(got.messages, rows)
			got.ranked = got.ranked || ranked
		})
		return errors.Join(rpcError(ctx, err), wrong)
	})
	return got
}

// watch holds a Watch open for d.
func (t *target) watch(ctx context.Context, req eviction.WatchRequest, d time.Duration) *watched {
	w := &watched{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Not a deadline, which the plugin would know of.
	defer time.AfterFunc(d, cancel).Stop()
	err := t.plugin.Watcher.Watch(ctx, req, func(wake eviction.Wake) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wakes = append(w.wakes, wake)
	})
	if ctx.Err() == nil {
		w.err = err
		if err == nil {
			w.err = errors.New("the stream ended without an error")
		}
	}
	return w
}

// watching holds a Watch open until stop. How it ended comes from ended.
func (t *target) watching(ctx context.Context, req eviction.WatchRequest, woken func(eviction.Wake)) (ended <-chan error, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	end := make(chan error, 1)
	var open sync.WaitGroup
	open.Go(func() { end <- t.plugin.Watcher.Watch(ctx, req, woken) })
	return end, func() {
		cancel()
		open.Wait()
	}
}

// passed waits until a call that was begun before must have been taken up.
func (t *target) passed(ctx context.Context) error {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return t.describe(ctx)
}

// rank returns the order of uids as it came.
func (t *target) rank(ctx context.Context, req eviction.RankRequest) ([]string, error) {
	var order []string
	err := t.options.within(ctx, rankTime, func(ctx context.Context) error {
		list, err := t.plugin.Ranker.Rank(ctx, req)
		for _, r := range list {
			order = append(order, r.UID)
		}
		return err
	})
	return order, err
}

// rankOne ranks for the first signal that is offered for it.
func (t *target) rankOne(ctx context.Context, candidates []eviction.Candidate) ([]string, error) {
	return t.rank(ctx, t.rankRequest(t.offering(eviction.CanRank)[0], candidates))
}

// reclaim runs a step and judges all that it says on the way.
func (t *target) reclaim(ctx context.Context, signal eviction.Signal, step string) error {
	_, err := t.reclaimStep(ctx, signal, step)
	return err
}

// reclaimStep is reclaim, with what was freed.
func (t *target) reclaimStep(ctx context.Context, signal eviction.Signal, step string) (freed eviction.Reclaimed, err error) {
	var bad error
	check := func(r eviction.Reclaimed) {
		switch {
		case bad != nil:
		case r.Bytes < 0 || r.Inodes < 0:
			bad = fmt.Errorf("freed %d bytes and %d inodes", r.Bytes, r.Inodes)
		case r.Bytes < freed.Bytes || r.Inodes < freed.Inodes:
			bad = fmt.Errorf("freed %d bytes and %d inodes since the call began, after it had been %d and %d", r.Bytes, r.Inodes, freed.Bytes, freed.Inodes)
		}
		freed = r
	}
	err = t.options.within(ctx, reclaimTime, func(ctx context.Context) error {
		got, err := t.plugin.Reclaimer.Reclaim(ctx, eviction.ReclaimRequest{Pass: 1, Signal: signal, Step: step}, check)
		if err == nil {
			check(got)
		}
		return err
	})
	return freed, errors.Join(err, bad)
}

// behavior is what calls say that should not depend on time.
func (t *target) behavior(ctx context.Context) (string, error) {
	var b strings.Builder
	if signals := t.offering(eviction.CanObserve); len(signals) > 0 {
		reply, err := t.observe(ctx, eviction.ViewBefore, signals...)
		if err != nil {
			return "", fmt.Errorf("observe: %w", err)
		}
		for _, o := range reply.Observations {
			fmt.Fprintf(&b, "%s state %d; ", o.Signal, o.State)
		}
	}
	if signals := t.offering(eviction.CanRank); len(signals) > 0 {
		order, err := t.rank(ctx, t.rankRequest(signals[0], t.candidates(12)))
		if err != nil {
			return "", fmt.Errorf("rank: %w", err)
		}
		fmt.Fprintf(&b, "ranking %s", order)
	}
	return b.String(), nil
}

// poke makes any call with raw bytes. A stream that stays open is an answer.
func (t *target) poke(ctx context.Context, rpc string, in message) error {
	const patience = 200 * time.Millisecond
	switch rpc {
	case "Measure", "Reclaim":
		return rpcError(ctx, stream(ctx, t.cc, service+rpc, in, func([]byte) {}))
	case "Watch":
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(patience, cancel).Stop()
		err := rpcError(ctx, stream(ctx, t.cc, service+rpc, in, func([]byte) {}))
		if ctx.Err() != nil {
			return nil // it was open until we ended it
		}
		return err
	default:
		_, err := t.call(ctx, rpc, in)
		return err
	}
}

func (t *target) pokeInTime(ctx context.Context, rpc string, in message) error {
	return t.options.within(ctx, callTime(rpc), func(ctx context.Context) error { return t.poke(ctx, rpc, in) })
}

// callTime is the host's deadline for a call.
func callTime(rpc string) time.Duration {
	switch rpc {
	case "Observe":
		return observeTime
	case "Rank":
		return rankTime
	case "Measure", "Reclaim":
		return measureTime
	default:
		return describeTime
	}
}

// calls lists the calls of the service but Describe, and whether each is
// offered.
func (t *target) calls() map[string]bool {
	p := &t.plugin
	return map[string]bool{
		"Configure": p.Configurer != nil, "Observe": p.Observer != nil, "Measure": p.Measurer != nil,
		"Watch": p.Watcher != nil, "Rank": p.Ranker != nil, "Reclaim": p.Reclaimer != nil,
	}
}

// offered reports whether a call applies to the plugin.
func (t *target) offered(rpc string) bool { return rpc == "Describe" || t.calls()[rpc] }

// destructive: an answer to it may have freed something.
func (t *target) destructive(rpc string) bool { return rpc == "Reclaim" && !t.options.Reclaim }
