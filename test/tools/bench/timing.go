package main

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"
)

// Limits of one measurement: enough rounds for a p99, if the time allows.
const (
	minRounds = 40
	maxRounds = 2000
	warmUp    = 10
	// allocRounds are counted separately, so that reading the counters does not distort the times.
	allocRounds = 50
)

// An operation is the code to measure; it returns when it is done.
type operation func(ctx context.Context) error

// A comparison holds the times of an operation and of its peer. Their rounds alternate, so that
// other load on the machine affects both.
type comparison struct {
	subject, peer []time.Duration
	// allocs and bytes are per operation, of this process.
	allocs, bytes float64
}

// compare runs subject and peer alternately for about budget.
func compare(ctx context.Context, budget time.Duration, subject, peer operation) (comparison, error) {
	var c comparison
	for range warmUp {
		if err := errors.Join(subject(ctx), peer(ctx)); err != nil {
			return c, err
		}
	}
	for started := time.Now(); len(c.subject) < maxRounds && (len(c.subject) < minRounds || time.Since(started) < budget); {
		t0 := time.Now()
		if err := subject(ctx); err != nil {
			return c, err
		}
		t1 := time.Now()
		if err := peer(ctx); err != nil {
			return c, err
		}
		c.subject, c.peer = append(c.subject, t1.Sub(t0)), append(c.peer, time.Since(t1))
	}
	slices.Sort(c.subject)
	slices.Sort(c.peer)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range allocRounds {
		if err := subject(ctx); err != nil {
			return c, err
		}
	}
	runtime.ReadMemStats(&after)
	c.allocs = float64(after.Mallocs-before.Mallocs) / allocRounds
	c.bytes = float64(after.TotalAlloc-before.TotalAlloc) / allocRounds
	return c, nil
}

// quantile returns the q-quantile of a sorted list; 1 is the maximum.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// row returns the table row for c.
func (c comparison) row(name string, pods int, peer string) row {
	p50, peer50 := quantile(c.subject, 0.5), quantile(c.peer, 0.5)
	return row{Name: name, Pods: pods, Peer: peer, Values: map[string]float64{
		"rounds": float64(len(c.subject)), "p50_us": micros(p50), "p99_us": micros(quantile(c.subject, 0.99)),
		"allocs": c.allocs, "alloc_kib": c.bytes / 1024,
		"peer_p50_us": micros(peer50), "ratio": float64(p50) / float64(max(peer50, 1)),
	}}
}
