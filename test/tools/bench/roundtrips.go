package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// memorySignals are the signals that a pass requests from the memory plugin by default.
var memorySignals = []eviction.Signal{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable}

var roundTripColumns = []column{
	{"p50_us", "p50", 0},
	{"p99_us", "p99", 0},
	{"allocs", "allocs/op", 0},
	{"alloc_kib", "KiB/op", 0},
	{"peer_p50_us", "peer p50", 0},
	{"ratio", "ratio", 2},
	{"rounds", "rounds", 0},
}

// roundTrips measures the calls of a pass, from the host's side, to the process of the memory
// plugin, with real cgroups.
func roundTrips(ctx context.Context, b *bench) (_ *part, err error) {
	p := &part{
		Title:   "Round trips through the memory plugin's process (AutoMTLS, unix socket), µs",
		Columns: roundTripColumns,
		Notes: []string{
			"allocs/op and KiB/op are those of the calling process; ratio is p50 to the peer's p50, taken in turn.",
			"\"Measure in process\" is the plugin's code without the round trip, called here. Its budget with 500 pods: ratio 1.25, no allocation.",
		},
	}
	g, err := newCgroups(b.name, b.memTotal)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.remove()) }()
	proc, err := startPlugin(ctx, b.programs.plugin("memory"), b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proc.stop()) }()
	attached, detach, err := attachPlugin(ctx, b.programs.plugin("memory"), b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, detach()) }()
	inside := memory.New()
	facts := eviction.NodeFacts{NodeName: "bench", RootDir: "/", CgroupRoot: g.root, CgroupDriver: "cgroupfs"}
	for _, c := range []eviction.Configurer{proc.Configurer, attached.Configurer, inside.Configurer} {
		if err := c.Configure(ctx, eviction.ConfigureRequest{Node: facts}); err != nil {
			return nil, fmt.Errorf("configure the memory plugin: %w", err)
		}
	}
	for _, n := range b.sizes {
		if err := g.grow(n); err != nil {
			return nil, err
		}
		for _, trip := range []func() (row, error){
			func() (row, error) { return observeTrip(ctx, proc, n, b.roundBudget) },
			func() (row, error) { return measureTrip(ctx, "Measure", proc.Measurer, g, n, b.roundBudget) },
			func() (row, error) {
				return measureTrip(ctx, "Measure in process", inside.Measurer, g, n, b.roundBudget)
			},
			func() (row, error) { return rankTrip(ctx, proc, n, b.roundBudget) },
			func() (row, error) { return socketTrip(ctx, &attached, &proc.Plugin, n, b.roundBudget) },
		} {
			r, err := trip()
			if err != nil {
				return nil, err
			}
			p.Rows = append(p.Rows, r)
		}
	}
	return p, nil
}

func observeTrip(ctx context.Context, proc *process, n int, budget time.Duration) (row, error) {
	req := eviction.ObserveRequest{PassView: eviction.PassView{View: eviction.ViewBefore}, Signals: memorySignals}
	c, err := compare(ctx, budget, func(ctx context.Context) error {
		req.Pass++
		reply, err := proc.Observer.Observe(ctx, req)
		if err != nil {
			return fmt.Errorf("observe: %w", err)
		}
		for _, o := range reply.Observations {
			if o.State != eviction.Observed {
				return fmt.Errorf("observe: %s is not observed: %s", o.Signal, o.Err)
			}
		}
		if len(reply.Observations) != len(memorySignals) {
			return fmt.Errorf("observe: got %d observations, want %d", len(reply.Observations), len(memorySignals))
		}
		return nil
	}, func(ctx context.Context) error {
		_, err := proc.calls.Describe(ctx, hostInfo)
		return err
	})
	return c.row("Observe", n, "Describe, an RPC that reads nothing"), err
}

// measureTrip measures m with n pods of g.
func measureTrip(ctx context.Context, name string, m eviction.Measurer, g *cgroups, n int, budget time.Duration) (row, error) {
	f, err := openFloor(g, n)
	if err != nil {
		return row{}, err
	}
	defer f.close()
	req := measureRequest(n)
	c, err := compare(ctx, budget, func(ctx context.Context) error {
		req.Pass++
		return measureAll(ctx, m, req, func(eviction.Measurement) {})
	}, f.read)
	return c.row(name, n, "pread of the same files"), err
}

func measureRequest(n int) eviction.MeasureRequest {
	return eviction.MeasureRequest{
		PassView: eviction.PassView{View: eviction.ViewBefore}, Detail: eviction.DetailPod,
		Signals: []eviction.Signal{eviction.MemoryAvailable}, Pods: podRows(n),
	}
}

func rankRequest(n int) eviction.RankRequest {
	const capacity, threshold, available = 8 << 30, 1 << 30, 1000 << 20
	return eviction.RankRequest{
		Signal: eviction.MemoryAvailable, Unit: eviction.UnitBytes, Threshold: eviction.Threshold{Amount: threshold},
		Available: available, Capacity: capacity, Shortfall: threshold - available, Hard: true, Candidates: candidates(n),
	}
}

func rankTrip(ctx context.Context, proc *process, n int, budget time.Duration) (row, error) {
	req := rankRequest(n)
	c, err := compare(ctx, budget, func(ctx context.Context) error {
		req.Pass++
		return rankAll(ctx, proc.Ranker, req)
	}, func(context.Context) error { return sortAll(req) })
	return c.row("Rank", n, "the same sort in this process"), err
}

// measureAll calls emit for all pods. It returns an error if any was not measured.
func measureAll(ctx context.Context, m eviction.Measurer, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	measured := 0
	err := m.Measure(ctx, req, func(m eviction.Measurement) {
		if m.State == eviction.Measured {
			emit(m)
			measured++
		}
	})
	if err == nil && measured != len(req.Pods) {
		err = fmt.Errorf("%d of %d pods were measured", measured, len(req.Pods))
	}
	if err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	return nil
}

// rankAll ranks all candidates. It returns an error if any was left out.
func rankAll(ctx context.Context, r eviction.Ranker, req eviction.RankRequest) error {
	order, err := r.Rank(ctx, req)
	if err == nil && len(order) != len(req.Candidates) {
		err = fmt.Errorf("%d of %d pods were ranked", len(order), len(req.Candidates))
	}
	if err != nil {
		return fmt.Errorf("rank: %w", err)
	}
	return nil
}

// sortAll ranks without a plugin, to measure the cost.
func sortAll(req eviction.RankRequest) error {
	if order := rank.Sort(req.Candidates, rank.For(req.Signal)); len(order) != len(req.Candidates) {
		return fmt.Errorf("%d of %d pods were sorted", len(order), len(req.Candidates))
	}
	return nil
}
