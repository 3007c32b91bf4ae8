package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/broken/fault"
)

// Configure implements eviction.Configurer.
func (b *broken) Configure(ctx context.Context, req eviction.ConfigureRequest) error {
	if b.strikes(fault.Configure) {
		if err := b.common(fault.Configure); err != nil {
			return err
		}
		switch b.Kind {
		case fault.Lie: // report success and keep nothing
			return nil
		case fault.Flood:
			line := strings.Repeat("all work and no play makes a dull plugin ", 100)
			for began := time.Now(); time.Since(began) < lateBy[fault.Configure]; time.Sleep(time.Millisecond) {
				fmt.Fprintln(os.Stderr, line) // megabytes, which make the answer late
			}
		default:
		}
	}
	return b.next.Configurer.Configure(context.WithoutCancel(ctx), req)
}

// Observe implements eviction.Observer.
func (b *broken) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	if !b.strikes(fault.Observe) {
		reply, err := b.next.Observer.Observe(ctx, req)
		b.remember(reply)
		return reply, err
	}
	if err := b.common(fault.Observe); err != nil {
		return eviction.ObserveReply{}, err
	}
	reply, err := b.next.Observer.Observe(context.WithoutCancel(ctx), req)
	for i := range reply.Observations {
		b.misreport(&reply.Observations[i])
	}
	switch {
	case b.Kind == fault.Flood:
		for range 200_000 {
			reply.Observations = append(reply.Observations, eviction.Observation{})
		}
	case b.is("twice"):
		reply.Observations = append(reply.Observations, reply.Observations...)
	case b.is("missing"):
		reply.Observations = nil
	}
	return reply, err
}

// remember stores figures for lies that repeat old ones.
func (b *broken) remember(reply eviction.ObserveReply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range reply.Observations {
		b.before[o.Signal] = o
	}
}

// former returns the last figure before the fault occurred.
func (b *broken) former(s eviction.Signal) eviction.Observation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.before[s]
}

func (b *broken) misreport(o *eviction.Observation) {
	switch {
	case b.Kind == fault.Oversized:
		o.Err = strings.Repeat("x", oversize)
	case b.is("available > capacity"):
		o.Available, o.Capacity = 1<<50, 1<<40
	case b.is("plenty"):
		o.Available = o.Capacity / 4 * 3
	case b.is("absent"):
		*o = eviction.Observation{Signal: o.Signal, State: eviction.Absent}
	case b.is("constant"):
		*o = b.former(o.Signal)
	case b.is("yesterday's figure"):
		now, boot := o.Time, o.BootNanos
		*o = b.former(o.Signal)
		o.Time, o.BootNanos = now, boot
	case b.is("negative capacity"):
		o.Capacity = -1
	case b.is("negative available"):
		o.Available = -1 << 62
	case b.is("future"):
		o.Time, o.BootNanos = time.Now().Add(24*time.Hour), 1<<62
	case b.is("old"):
		o.Time, o.BootNanos = time.Now().Add(-24*time.Hour), 1
	case b.is("other signals"):
		o.Signal = eviction.PIDAvailable
	}
}

// Measure implements eviction.Measurer.
func (b *broken) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	if !b.strikes(fault.Measure) {
		return b.next.Measurer.Measure(ctx, req, emit)
	}
	if err := b.common(fault.Measure); err != nil {
		return err
	}
	for b.Kind == fault.Flood && ctx.Err() == nil {
		emit(eviction.Measurement{UID: "nobody", State: eviction.Measured})
	}
	for i := 0; b.Kind == fault.Trickle && ctx.Err() == nil; i++ {
		emit(eviction.Measurement{UID: req.Pods[i%len(req.Pods)].UID})
		time.Sleep(trickle)
	}
	return b.next.Measurer.Measure(context.WithoutCancel(ctx), req, func(m eviction.Measurement) {
		m.Usage = slices.Clone(m.Usage)
		b.mismeasure(&m, emit)
	})
}

func (b *broken) mismeasure(m *eviction.Measurement, emit func(eviction.Measurement)) {
	switch {
	case b.Kind == fault.Oversized:
		m.Err = strings.Repeat("x", oversize)
	case b.is("foreign uids"):
		m.UID = "foreign-" + m.UID
	case b.is("protected uids"):
		m.UID = b.Protected
	case b.is("twice"):
		emit(*m)
	case b.is("missing uids"):
		return
	case b.is("negative"):
		for i := range m.Usage {
			m.Usage[i].Value = -5
		}
	case b.is("other signals"):
		for i := range m.Usage {
			m.Usage[i].Signal = eviction.PIDAvailable
		}
	case b.is("future"):
		m.Time = time.Now().Add(24 * time.Hour)
	case b.is("old"):
		m.Time = time.Now().Add(-24 * time.Hour)
	}
	emit(*m)
}

// Watch implements eviction.Watcher.
func (b *broken) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	if !b.strikes(fault.Watch) {
		return b.next.Watcher.Watch(ctx, req, wake)
	}
	if b.Kind != fault.Late && b.Kind != fault.Slow {
		if err := b.common(fault.Watch); err != nil {
			return err
		}
	}
	for b.Kind == fault.Flood && ctx.Err() == nil {
		wake(eviction.Wake{Signal: req.Thresholds[0].Signal, Cause: "flood"})
	}
	if b.is("spurious") {
		for ctx.Err() == nil {
			wake(eviction.Wake{Signal: req.Thresholds[0].Signal, Cause: "nothing"})
			time.Sleep(10 * time.Millisecond)
		}
	}
	return b.next.Watcher.Watch(ctx, req, func(w eviction.Wake) {
		switch {
		case b.Kind == fault.Late:
			time.Sleep(lateBy[fault.Watch])
		case b.Kind == fault.Slow:
			time.Sleep(slowBy[fault.Watch])
		case b.Kind == fault.Oversized:
			w.Cause = strings.Repeat("x", oversize)
		case b.is("other signals"):
			w.Signal = eviction.PIDAvailable
		case b.is("silent"):
			return
		}
		wake(w)
	})
}

// Rank implements eviction.Ranker.
func (b *broken) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	if !b.strikes(fault.Rank) {
		return b.next.Ranker.Rank(ctx, req)
	}
	if err := b.common(fault.Rank); err != nil {
		return nil, err
	}
	ranked, err := b.next.Ranker.Rank(context.WithoutCancel(ctx), req)
	if err != nil || len(ranked) == 0 {
		return ranked, err
	}
	switch {
	case b.Kind == fault.Flood:
		for range 200_000 {
			ranked = append(ranked, ranked[0])
		}
	case b.Kind == fault.Oversized:
		ranked[0].Reason = strings.Repeat("x", oversize)
	case b.is("foreign uids"):
		ranked[0].UID = "foreign"
	case b.is("protected uids"):
		ranked[0].UID = b.Protected
	case b.is("twice"):
		ranked[len(ranked)-1] = ranked[0]
	case b.is("missing uids"):
		ranked = nil
	}
	return ranked, nil
}

// Reclaim implements eviction.Reclaimer.
func (b *broken) Reclaim(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	// Break only one step: each step is a separate call.
	if req.Step == "image-gc" || !b.strikes(fault.Reclaim) {
		return b.next.Reclaimer.Reclaim(ctx, req, progress)
	}
	if err := b.common(fault.Reclaim); err != nil {
		return eviction.Reclaimed{}, err
	}
	for b.Kind == fault.Flood && ctx.Err() == nil {
		progress(eviction.Reclaimed{Bytes: 1})
	}
	for i := int64(1); b.Kind == fault.Trickle && ctx.Err() == nil; i++ {
		progress(eviction.Reclaimed{Bytes: i})
		time.Sleep(trickle)
	}
	released, err := b.next.Reclaimer.Reclaim(context.WithoutCancel(ctx), req, progress)
	switch {
	case b.Kind == fault.Oversized:
		released.Message = strings.Repeat("x", oversize)
	case b.is("freed 2^62"):
		released.Bytes, released.Inodes = 1<<62, 1<<62
	case b.is("freed -2^62"):
		released.Bytes, released.Inodes = -1<<62, -1<<62
	}
	return released, err
}
