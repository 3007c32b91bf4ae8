package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The budgets of the design. They are printed, not enforced.
const (
	budgetIdlePercent = 0.2
	budgetPSSMiB      = 48
	budgetQuietMicros = 1000
	budgetStartMillis = 300
)

// idleSettle is the time after which a started evictd counts as idle.
const idleSettle = 3 * time.Second

// starts measures the time from the start of evictd to the end of its first pass with figures.
func starts(ctx context.Context, b *bench) (_ *part, err error) {
	s, err := newSite(b, b.idlePods, b.memTotal)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var took []time.Duration
	for range b.starts {
		one, err := s.timeStart(ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, one)
	}
	slices.Sort(took)
	p50 := quantile(took, 0.5)
	return &part{
		Title: "Start of evictd with its three plugins to the end of the first pass with figures, ms",
		Columns: []column{
			{"p50_ms", "p50", 0}, {"max_ms", "max", 0}, {"starts", "starts", 0}, {"budget_ms", "budget", 0}, {"of_budget", "p50/budget", 2},
		},
		Rows: []row{{Name: "evictd", Pods: b.idlePods, Values: map[string]float64{
			"p50_ms": millis(p50), "max_ms": millis(quantile(took, 1)), "starts": float64(len(took)),
			"budget_ms": budgetStartMillis, "of_budget": millis(p50) / budgetStartMillis,
		}}},
	}, nil
}

func (s *site) timeStart(ctx context.Context) (_ time.Duration, err error) {
	d, err := s.start(map[string]any{"logLevel": "debug"})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	if _, err := d.await(ctx, "signal observed", 20*time.Second); err != nil {
		return 0, err
	}
	r, err := d.await(ctx, "pass", 5*time.Second)
	return time.Duration(r.At - d.StartedAt), err
}

// idle measures evictd and its plugins while nothing happens.
func idle(ctx context.Context, b *bench) (_ *part, err error) {
	s, err := newSite(b, b.idlePods, b.memTotal)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	w, err := s.watch(ctx, nil, idleSettle, b.idle)
	if err != nil {
		return nil, err
	}
	p := &part{
		Title: fmt.Sprintf("Idle for %v: interval 10 s, notifications on (%d passes)", b.idle, w.passes),
		Columns: []column{
			{"pss_mib", "PSS MiB", 1}, {"wakeups_per_s", "wake-ups/s", 2}, {"cpu_percent", "CPU %", 3}, {"threads", "threads", 0},
		},
		Notes: []string{
			fmt.Sprintf("Budget: %.1f %% of a core; %d MiB for host and three plugins.", budgetIdlePercent, budgetPSSMiB),
			"Wake-ups are context switches, voluntary or not, of all threads.",
		},
	}
	p.Rows = append(w.rows("", b.idlePods),
		row{Name: "budget", Pods: b.idlePods, Values: map[string]float64{"pss_mib": budgetPSSMiB, "cpu_percent": budgetIdlePercent}})
	return p, nil
}

// rows returns the usage of each process, by name, and their total.
func (w *watchedTime) rows(mode string, pods int) (rows []row) {
	total := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(w.after)) {
		before, after := w.before[name], w.after[name]
		values := map[string]float64{
			"pss_mib":       float64(after.pssBytes) / (1 << 20),
			"wakeups_per_s": float64(after.switchesSince(before)) / w.took.Seconds(),
			"cpu_percent":   100 * (after.cpu - before.cpu).Seconds() / w.took.Seconds(),
			"threads":       float64(len(after.switches)),
		}
		for k, v := range values {
			total[k] += v
		}
		rows = append(rows, row{Name: name + mode, Pods: pods, Values: values})
	}
	return append(rows, row{Name: "all" + mode, Pods: pods, Values: total})
}

// quiet measures the CPU time of a pass that finds no pressure, with few pods and with many: it
// must not depend on their number.
func quiet(ctx context.Context, b *bench) (*part, error) {
	p := &part{
		Title: fmt.Sprintf("CPU time of a quiet pass (every 100 ms for %v), µs", b.quiet),
		Columns: []column{
			{"cpu_us", "all", 0},
			{"cpu_evictd_us", "evictd", 0},
			{"cpu_memory_us", "memory", 0},
			{"cpu_disk_us", "disk", 0},
			{"cpu_pid_us", "pid", 0},
			{"passes", "passes", 0},
			{"budget_us", "budget", 0},
			{"of_budget", "all/budget", 2},
			{"ratio", "ratio", 2},
		},
		Notes: []string{"All CPU time of all processes by the number of passes, what they use besides passes included."},
	}
	for _, n := range []int{10, 500, 1000} {
		r, err := quietPass(ctx, b, n)
		if err != nil {
			return nil, err
		}
		if len(p.Rows) > 0 {
			r.Peer, r.Values["ratio"] = "the same with 10 pods", r.Values["cpu_us"]/p.Rows[0].Values["cpu_us"]
		}
		p.Rows = append(p.Rows, r)
	}
	return p, nil
}

func quietPass(ctx context.Context, b *bench, pods int) (_ row, err error) {
	s, err := newSite(b, pods, b.memTotal)
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	w, err := s.watch(ctx, map[string]any{"monitoringInterval": "100ms"}, time.Second, b.quiet)
	if err != nil {
		return row{}, err
	}
	if w.passes <= 0 {
		return row{}, fmt.Errorf("evictd made no pass in %v", w.took)
	}
	values := map[string]float64{"passes": float64(w.passes), "budget_us": budgetQuietMicros}
	for name, after := range w.after {
		cpu := micros(after.cpu-w.before[name].cpu) / float64(w.passes)
		values["cpu_"+name+"_us"] = cpu
		values["cpu_us"] += cpu
	}
	values["of_budget"] = values["cpu_us"] / budgetQuietMicros
	return row{Name: "quiet pass", Pods: pods, Values: values}, nil
}
