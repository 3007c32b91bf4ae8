package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// configureWith sends a config that is to be refused.
func (t *target) configureWith(ctx context.Context, config []byte) error {
	return t.run.options.within(ctx, configureTime, func(ctx context.Context) error {
		return t.plugin.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: t.run.node, Config: config})
	})
}

func (t *target) observe(ctx context.Context, view eviction.View, signals ...eviction.Signal) (eviction.ObserveReply, error) {
	var reply eviction.ObserveReply
	err := t.run.options.within(ctx, observeTime, func(ctx context.Context) (err error) {
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
	got.err = t.run.options.within(ctx, limit, func(ctx context.Context) error {
		var wrong error
		err := t.client.StreamRaw(ctx, "Measure", request, func(raw []byte) {
			rows, err := wire.DecodeMeasurements(raw)
			wrong = errors.Join(wrong, err)
			got.messages = append(got.messages, rows)
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
	err := t.run.options.within(ctx, rankTime, func(ctx context.Context) error {
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

// reclaimStep runs a step like reclaim and returns what it reclaimed.
func (t *target) reclaimStep(ctx context.Context, signal eviction.Signal, step string) (released eviction.Reclaimed, err error) {
	var bad error
	check := func(r eviction.Reclaimed) {
		switch {
		case bad != nil:
		case r.Bytes < 0 || r.Inodes < 0:
			bad = fmt.Errorf("freed %d bytes and %d inodes", r.Bytes, r.Inodes)
		case r.Bytes < released.Bytes || r.Inodes < released.Inodes:
			bad = fmt.Errorf("freed %d bytes and %d inodes since the call began, after it had been %d and %d", r.Bytes, r.Inodes, released.Bytes, released.Inodes)
		}
		released = r
	}
	err = t.run.options.within(ctx, reclaimTime, func(ctx context.Context) error {
		got, err := t.plugin.Reclaimer.Reclaim(ctx, eviction.ReclaimRequest{Pass: 1, Signal: signal, Step: step}, check)
		if err == nil {
			check(got)
		}
		return err
	})
	if err = errors.Join(err, bad); err == nil {
		t.run.reclaim(released)
	}
	return released, err
}

// behavior calls the plugin and returns the part of its answers that must not depend on time.
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

// An rpc is a call of the service.
type rpc struct {
	name string
	// text is the number of a text in the request. In Configure and Watch it is in a
	// message inside, where it fails to be one.
	text    protowire.Number
	limit   time.Duration
	offered func(*eviction.Plugin) bool
}

var rpcs = []rpc{
	{"Describe", 1, describeTime, func(*eviction.Plugin) bool { return true }},
	{"Configure", 1, configureTime, func(p *eviction.Plugin) bool { return p.Configurer != nil }},
	{"Observe", 3, observeTime, func(p *eviction.Plugin) bool { return p.Observer != nil }},
	{"Measure", 4, measureTime, func(p *eviction.Plugin) bool { return p.Measurer != nil }},
	{"Watch", 1, describeTime, func(p *eviction.Plugin) bool { return p.Watcher != nil }},
	{"Rank", 2, rankTime, func(p *eviction.Plugin) bool { return p.Ranker != nil }},
	{"Reclaim", 2, measureTime, func(p *eviction.Plugin) bool { return p.Reclaimer != nil }},
}

// destructive: an answer to it may have reclaimed something.
func (t *target) destructive(c rpc) bool { return c.name == "Reclaim" && !t.run.options.Reclaim }

// call makes the call with raw bytes, and reads a stream to its end.
func (c rpc) call(ctx context.Context, t *target, in message) error {
	switch c.name {
	case "Measure", "Reclaim", "Watch":
		return rpcError(ctx, t.client.StreamRaw(ctx, c.name, in, func([]byte) {}))
	default:
		_, err := t.call(ctx, c.name, in)
		return err
	}
}

// callBriefly makes any call with raw bytes. A Watch that stays open is an answer.
func (t *target) callBriefly(ctx context.Context, c rpc, in message) error {
	if c.name != "Watch" {
		return c.call(ctx, t, in)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(200*time.Millisecond, cancel).Stop()
	err := c.call(ctx, t, in)
	if ctx.Err() != nil {
		return nil // it was open until we ended it
	}
	return err
}

func (t *target) pokeInTime(ctx context.Context, c rpc, in message) error {
	return t.run.options.within(ctx, c.limit, func(ctx context.Context) error { return t.callBriefly(ctx, c, in) })
}
