package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The budgets of the design. They are printed, not enforced.
const (
	budgetIdlePercent  = 0.2
	budgetPSSMiB       = 48
	budgetQuietMicros  = 1000
	budgetStartMillis  = 300
	budgetCrossingP50  = 2000
	budgetCrossingP99  = 10000
	farAway            = "100Mi" // a threshold that nothing here comes near
	idleSettle         = 3 * time.Second
	hundredMillis      = "100ms"
	longerThanTheBench = "1h"
)

// A site is a node with pods for evictd to look after: cgroups, manifests and a
// runtime, over the machine's real memory.
type site struct {
	b       *bench
	dir     string
	cgroups *cgroups
	cri     *cri
}

// newSite makes a site; the cgroup of all pods may use limitBytes.
func newSite(b *bench, pods int, limitBytes int64) (_ *site, err error) {
	s := &site{b: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp(b.dir, "site-"); err != nil {
		return nil, err
	}
	if err := writeManifests(s.manifests(), pods); err != nil {
		return nil, err
	}
	if s.cri, err = serveCRI(s.socket(), pods); err != nil {
		return nil, err
	}
	if s.cgroups, err = newCgroups(b.name, limitBytes); err != nil {
		return nil, err
	}
	return s, s.cgroups.grow(pods)
}

func (s *site) manifests() string { return filepath.Join(s.dir, "manifests") }
func (s *site) socket() string    { return filepath.Join(s.dir, "cri.sock") }

// start starts evictd on the site with notifications on.
func (s *site) start(config map[string]any) (*daemon, error) {
	full := map[string]any{
		"runtimeEndpoint": "unix://" + s.socket(), "podManifestDir": s.manifests(),
		"cgroupRoot": s.cgroups.root, "cgroupDriver": "cgroupfs", "kernelMemcgNotification": true,
		"evictionHard": map[string]string{"memory.available": farAway},
	}
	maps.Copy(full, config)
	return startEvictd(s.b, s.dir, full)
}

func (s *site) close() error {
	var errs []error
	if s.cri != nil {
		errs = append(errs, s.cri.close())
	}
	if s.cgroups != nil {
		errs = append(errs, s.cgroups.remove())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// starts measures how long evictd takes from its start to the end of its first
// pass that had figures.
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
		Title: "Start of evictd with its plugin to the end of the first pass with figures, ms",
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
	defer func() { err = errors.Join(err, d.stop()) }()
	if _, err := d.await(ctx, "signal observed", 20*time.Second); err != nil {
		return 0, err
	}
	l, err := d.await(ctx, "pass", 5*time.Second)
	return l.at - d.started, err
}

// A watchedTime is what processes used between two looks at them.
type watchedTime struct {
	before, after map[string]usage
	passes        int64
	took          time.Duration
}

// watch starts evictd, lets it settle and looks at it for so long.
func (s *site) watch(ctx context.Context, config map[string]any, settle, length time.Duration) (w watchedTime, err error) {
	d, err := s.start(config)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.awaitReady(ctx); err != nil {
		return w, err
	}
	if err := wait(ctx, settle); err != nil {
		return w, err
	}
	passes, err := d.passes(ctx)
	if err != nil {
		return w, err
	}
	if w.before, err = d.usage(); err != nil {
		return w, err
	}
	began := monotonic()
	if err := wait(ctx, length); err != nil {
		return w, err
	}
	w.took = monotonic() - began
	if w.after, err = d.usage(); err != nil {
		return w, err
	}
	w.passes, err = d.passes(ctx)
	w.passes -= passes
	return w, err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// idle looks at evictd and its plugins while nothing happens.
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
			fmt.Sprintf("Budget: %.1f %% of a core; %d MiB for host and three plugins (one of them here).", budgetIdlePercent, budgetPSSMiB),
			"Wake-ups are context switches, voluntary or not, of all threads.",
		},
	}
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
		p.Rows = append(p.Rows, row{Name: name, Pods: b.idlePods, Values: values})
	}
	p.Rows = append(p.Rows,
		row{Name: "all", Pods: b.idlePods, Values: total},
		row{Name: "budget", Pods: b.idlePods, Values: map[string]float64{"pss_mib": budgetPSSMiB, "cpu_percent": budgetIdlePercent}})
	return p, nil
}

// quiet measures the CPU time of a pass that finds nothing, with no pods and
// with many: it must not depend on them.
func quiet(ctx context.Context, b *bench) (*part, error) {
	p := &part{
		Title: fmt.Sprintf("CPU time of a quiet pass (every 100 ms for %v), µs", b.quiet),
		Columns: []column{
			{"cpu_us", "all", 0},
			{"cpu_evictd_us", "evictd", 0},
			{"cpu_memory_us", "memory", 0},
			{"passes", "passes", 0},
			{"budget_us", "budget", 0},
			{"of_budget", "all/budget", 2},
			{"ratio", "ratio", 2},
		},
		Notes: []string{"All CPU time of all processes by the number of passes, what they use besides passes included."},
	}
	for _, n := range []int{0, b.idlePods} {
		r, err := quietPass(ctx, b, n)
		if err != nil {
			return nil, err
		}
		if len(p.Rows) > 0 {
			r.Peer, r.Values["ratio"] = "the same without pods", r.Values["cpu_us"]/p.Rows[0].Values["cpu_us"]
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
	w, err := s.watch(ctx, map[string]any{"monitoringInterval": hundredMillis}, time.Second, b.quiet)
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
