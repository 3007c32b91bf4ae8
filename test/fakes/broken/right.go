package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
	"github.com/evictd/evictd/shared/nodefs"
)

// cacheSignal is the custom signal of right.
const cacheSignal eviction.Signal = "faults.example/cache"

// right is a plugin with all capabilities that keeps the contract; the wrong ones are made from it.
type right struct {
	config   atomic.Pointer[rightConfig]
	released atomic.Int64
}

type rightConfig struct {
	// Reverse reverses the ranking.
	Reverse bool `json:"reverse"`
}

func newRight() eviction.Plugin {
	r := &right{}
	r.config.Store(&rightConfig{})
	return eviction.Plugin{
		Name: "right", Version: "1.0.0",
		Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}, {Signal: eviction.PIDAvailable}, {
			Signal:       cacheSignal,
			Definition:   &eviction.Definition{Unit: "bytes", Format: eviction.FormatBinarySI, Resource: string(cacheSignal), Condition: "faults.example/CachePressure"},
			ReclaimSteps: []eviction.ReclaimStep{{Name: "faults.example/trim"}},
		}},
		Configurer: r, Observer: r, Measurer: r, Watcher: r, Ranker: r, Reclaimer: r,
	}
}

// Configure implements eviction.Configurer.
func (r *right) Configure(_ context.Context, req eviction.ConfigureRequest) error {
	c := &rightConfig{}
	if len(req.Config) > 0 {
		d := json.NewDecoder(bytes.NewReader(req.Config))
		d.DisallowUnknownFields()
		if err := d.Decode(c); err != nil {
			return err
		}
	}
	r.config.Store(c)
	return nil
}

// Observe implements eviction.Observer.
func (r *right) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	var reply eviction.ObserveReply
	for _, signal := range req.Signals {
		o := eviction.Observation{Signal: signal, State: eviction.Observed, Time: time.Now()}
		fs := nodefs.FS{Root: "/"}
		var err error
		switch signal {
		case eviction.MemoryAvailable:
			var m nodefs.MemorySample
			m, err = fs.ReadNodeMemory(nodefs.MemoryRules{MemAvailable: true})
			o.Available, o.Capacity = m.AvailableBytes, m.CapacityBytes
		case eviction.PIDAvailable:
			var naming *nodefs.Naming
			var p nodefs.PIDSample
			if naming, err = fs.Naming("/", ""); err == nil {
				p, err = fs.ReadPIDs(naming)
			}
			o.Available, o.Capacity = p.Available(), p.Max()
		case cacheSignal:
			o.Available, o.Capacity = 1<<30, 4<<30
		default:
			continue
		}
		if err != nil {
			o.State, o.Err = eviction.Unknown, err.Error()
		}
		reply.Observations = append(reply.Observations, o)
	}
	return reply, nil
}

// Measure implements eviction.Measurer: it has no stats of any pod.
func (r *right) Measure(_ context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	for i := range req.Pods {
		emit(eviction.Measurement{UID: req.Pods[i].UID, State: eviction.NoStats})
	}
	return nil
}

// Watch implements eviction.Watcher by polling.
func (r *right) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	over := map[eviction.Signal]bool{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		for _, t := range req.Thresholds {
			reply, err := r.Observe(ctx, eviction.ObserveRequest{Signals: []eviction.Signal{t.Signal}})
			if err != nil || len(reply.Observations) == 0 {
				continue
			}
			o := reply.Observations[0]
			is := o.Available < t.Threshold.Of(o.Capacity)
			if is && !over[t.Signal] {
				wake(eviction.Wake{Signal: t.Signal, Cause: "poll"})
			}
			over[t.Signal] = is
		}
	}
}

// Rank implements eviction.Ranker.
func (r *right) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	ranked := rank.Sort(req.Candidates, rank.For(req.Signal))
	if r.config.Load().Reverse {
		slices.Reverse(ranked)
	}
	return ranked, nil
}

// Reclaim implements eviction.Reclaimer: each call reclaims less.
func (r *right) Reclaim(_ context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	if req.Step != "faults.example/trim" {
		return eviction.Reclaimed{}, fmt.Errorf("step %q, want faults.example/trim", req.Step)
	}
	released := eviction.Reclaimed{Bytes: max(0, 10-r.released.Add(1))}
	progress(released)
	return released, nil
}
