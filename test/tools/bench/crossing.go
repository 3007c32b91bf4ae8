package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/stack"
)

const (
	crossingPods = 110
	// The cgroup of all pods is limited to crossingLimit; the threshold is crossed when
	// crossingLevel of it is used.
	crossingLimit = 256 << 20
	crossingLevel = 128 << 20
	// calm is longer than evictd remembers the last wake, so that each crossing finds it in the
	// state of a quiet node.
	calm = 1200 * time.Millisecond
	// missedAfter is the time after which an eviction counts as missed: the interval is so long
	// that only a notification can cause it.
	missedAfter = 5 * time.Second
	// stuckAfter is the time after which an eviction that has begun does not end.
	stuckAfter = time.Minute
	// longerThanTheBench is an interval in which no regular pass begins.
	longerThanTheBench = "1h"
)

// The budgets of the design for "victim chosen", in µs.
const (
	budgetCrossingP50 = 2000
	budgetCrossingP99 = 10000
)

// reactions holds the times from crossings to the reactions.
type reactions struct {
	kernel, chosen, stopped []time.Duration
	missed                  int
}

// crossings lets a hog cross allocatableMemory.available of the bench's own cgroup repeatedly and
// measures evictd's reaction.
func crossings(ctx context.Context, b *bench) (_ *part, err error) {
	s, err := newSite(b, crossingPods, crossingLimit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	h, err := startHog(s.cgroups.pod(0), s.cgroups.path(), crossingLevel)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	n, err := newNotifier(s.cgroups.path(), crossingLevel)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	d, err := s.start(map[string]any{
		"monitoringInterval": longerThanTheBench,
		"evictionHard":       map[string]string{"allocatableMemory.available": fmt.Sprint(crossingLimit - crossingLevel)},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	if err := d.Ready(ctx); err != nil {
		return nil, err
	}
	x := &crosser{site: s, hog: h, kernel: n, daemon: d}
	// The first crossing may meet what is not read or open yet; report it separately.
	var first, all reactions
	if err := x.cross(ctx, &first); err != nil {
		return nil, err
	}
	for range b.crossings {
		if err := x.cross(ctx, &all); err != nil {
			return nil, err
		}
	}
	if len(all.chosen) == 0 {
		return nil, fmt.Errorf("evictd missed each of %d crossings", b.crossings)
	}
	return all.part(first), nil
}

// A crosser makes crossings and observes the reactions.
type crosser struct {
	site   *site
	hog    filler
	kernel *notifier     // nil without a notification
	calm   time.Duration // before each crossing, calm by default
	daemon *daemon
}

// callTime returns the time of a call to the runtime, in CLOCK_MONOTONIC.
func callTime(c fakecri.Call) time.Duration { return monotonic() - time.Since(c.Time) }

// cross makes one crossing, records the reactions and restores the initial state.
func (x *crosser) cross(ctx context.Context, r *reactions) error {
	if err := stack.Pause(ctx, cmp.Or(x.calm, calm)); err != nil {
		return err
	}
	x.daemon.forget()
	if x.kernel != nil {
		x.kernel.drain()
	}
	runtime := x.site.runtime
	stops := len(runtime.Calls(fakecri.StopContainer))
	// Like a killed container, this one ends only after the hog's memory is free again.
	drained := make(chan struct{})
	runtime.Inject(fakecri.StopContainer, fakecri.Fault{Until: drained, Times: 1})
	crossed, err := x.hog.fill()
	if err != nil {
		return err
	}
	chosen, err := x.daemon.await(ctx, "evicting pod", missedAfter)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		r.missed++
		runtime.Heal()
		return x.hog.drain()
	}
	if err != nil {
		return err
	}
	if uid := chosen.String("uid"); uid != podUID(0) {
		return fmt.Errorf("evictd chose %s (uid %s), want the pod that fills memory, uid %s", chosen.String("pod"), uid, podUID(0))
	}
	r.chosen = append(r.chosen, time.Duration(chosen.At)-crossed)
	inTime, cancel := context.WithTimeoutCause(ctx, stuckAfter, errors.New("evictd chose a victim and did not stop its container"))
	defer cancel()
	if err := runtime.Await(inTime, fakecri.StopContainer, stops+1); err != nil {
		return context.Cause(inTime)
	}
	r.stopped = append(r.stopped, callTime(runtime.Calls(fakecri.StopContainer)[stops])-crossed)
	if x.kernel != nil {
		select {
		case at := <-x.kernel.rings:
			r.kernel = append(r.kernel, at-crossed) // negative if it is faster than the hog's own check
		default:
		}
	}
	if err := x.hog.drain(); err != nil {
		return err
	}
	close(drained)
	if _, err := x.daemon.await(ctx, "pod finished", stuckAfter); err != nil {
		return err
	}
	runtime.Remove(podUID(0))
	runtime.Add(runtimePod(0))
	return nil
}

func (r *reactions) part(first reactions) *part {
	p := &part{
		Title: "Threshold crossed, and then: allocatableMemory.available of an own cgroup, notifications only, µs",
		Columns: []column{
			{"p50_us", "p50", 0},
			{"p99_us", "p99", 0},
			{"max_us", "max", 0},
			{"first_us", "first", 0},
			{"budget_p50_us", "budget p50", 0},
			{"budget_p99_us", "budget p99", 0},
			{"ratio", "ratio", 2},
			{"crossings", "crossings", 0},
			{"missed", "missed", 0},
		},
		Notes: []string{
			fmt.Sprintf("A process fills %d MiB about as fast as it can, and stamps the crossing; 110 pods with cgroups and manifests, a runtime that", crossingLevel>>20),
			"answers at once. \"first\" is the crossing before these. The ratio is of medians.",
		},
	}
	kernel := quantile(slices.Sorted(slices.Values(r.kernel)), 0.5)
	add := func(name string, took, first []time.Duration, more map[string]float64) {
		sorted := slices.Sorted(slices.Values(took))
		values := map[string]float64{
			"p50_us": micros(quantile(sorted, 0.5)), "p99_us": micros(quantile(sorted, 0.99)), "max_us": micros(quantile(sorted, 1)),
			"crossings": float64(len(sorted)),
		}
		maps.Copy(values, more)
		if len(first) > 0 {
			values["first_us"] = micros(first[0])
		}
		row := row{Name: name, Pods: crossingPods, Values: values}
		if more != nil && kernel > 0 {
			row.Peer, values["ratio"] = "the kernel's notification alone", values["p50_us"]/micros(kernel)
		}
		p.Rows = append(p.Rows, row)
	}
	missed := float64(r.missed)
	add("kernel's notification", r.kernel, first.kernel, nil)
	add("victim chosen (logged)", r.chosen, first.chosen, map[string]float64{"missed": missed, "budget_p50_us": budgetCrossingP50, "budget_p99_us": budgetCrossingP99})
	add("StopContainer called", r.stopped, first.stopped, map[string]float64{"missed": missed})
	return p
}
