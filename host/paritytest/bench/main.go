// Bench times a pass that ranks all pods and kills one: evictd's with plugin processes against the
// kubelet's own manager, in one run, with figures ready on both sides. Separate lines show passes
// in which plugins read a new summary; the Go benchmarks of sdk/summary time its decoding.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// sizes holds numbers of pods. The largest exceeds a real node and shows the growth.
var sizes = []int{110, 500, 1000, 5000}

type bench struct {
	// plugins and ready are directories of plugins: those of the build, and those with their
	// figures ready.
	plugins, ready string
	budget         time.Duration
}

func main() {
	plugins := flag.String("plugins", "../../bin/plugins", "the directory of the built plugins")
	ready := flag.String("readymade", "../../bin/readymade", "the plugin that has its figures ready")
	budget := flag.Duration("budget", time.Second, "for how long each figure is measured, on each side")
	as := flag.String("side", "", "internal: be this side of the comparison")
	of := flag.String("family", "", "internal: the family of -side")
	pods := flag.Int("pods", 0, "internal: the pods of -side")
	most := flag.Int("most", slices.Max(sizes), "the largest number of pods")
	flag.Parse()
	sizes = slices.DeleteFunc(sizes, func(n int) bool { return n > *most })
	work := func(ctx context.Context) error { return run(ctx, *plugins, *ready, *budget) }
	if *as != "" {
		work = func(ctx context.Context) error { return serve(ctx, *as, familyNamed(*of), *pods, *plugins) }
	}
	if err := work(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, plugins, ready string, budget time.Duration) (err error) {
	b := &bench{budget: budget}
	if b.plugins, err = filepath.Abs(plugins); err != nil {
		return err
	}
	if b.ready, err = os.MkdirTemp("", "readymade-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.ready)) }()
	program, err := os.ReadFile(ready)
	if err != nil {
		return err
	}
	for _, f := range families {
		if err := os.WriteFile(filepath.Join(b.ready, f.name), program, 0o755); err != nil { //nolint:gosec // it is run
			return err
		}
	}
	if err := b.passes(ctx); err != nil {
		return err
	}
	return b.whole(ctx)
}

// passes compares whole passes with figures ready.
func (b *bench) passes(ctx context.Context) error {
	fmt.Println("A pass with ranking and one kill, figures ready on both sides; medians in ms")
	fmt.Println("\"Measure\" is the part of evictd's in which it gets the ready figures out of the plugin's process; the kubelet's has them at hand.")
	fmt.Printf("%-8s %6s %10s %10s %8s %10s\n", "", "pods", "kubelet", "evictd", "faster", "Measure")
	for _, f := range families {
		var theirs, ours []time.Duration
		for _, n := range sizes {
			k, e, m, err := b.compare(ctx, f, n)
			if err != nil {
				return fmt.Errorf("%s, %d pods: %w", f.name, n, err)
			}
			theirs, ours = append(theirs, k), append(ours, e)
			fmt.Printf("%-8s %6d %10s %10s %7.1fx %10s\n", f.name, n, ms(k), ms(e), float64(k)/float64(e), ms(m))
		}
		from, to := len(sizes)/3, len(sizes)-1 // 500 to 5000 pods
		fmt.Printf("%-8s from %d to %d pods: kubelet %.1f times, evictd %.1f times as long\n", f.name, sizes[from], sizes[to],
			float64(theirs[to])/float64(theirs[from]), float64(ours[to])/float64(ours[from]))
	}
	return nil
}

// compare lets the sides take turns of some passes each, and returns medians: a noisy moment then
// affects both.
func (b *bench) compare(ctx context.Context, f family, pods int) (k, e, measuring time.Duration, err error) {
	const turns = 4
	theirs, err := start(ctx, sideKubelet, f, pods, b.ready)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, theirs.stop()) }()
	ours, err := start(ctx, sideEvictd, f, pods, b.ready)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()
	var ks, es []time.Duration
	for range turns {
		t, err := theirs.turn(b.budget / turns)
		if err != nil {
			return 0, 0, 0, fmt.Errorf("kubelet: %w", err)
		}
		ks = append(ks, t.Took...)
		if t, err = ours.turn(b.budget / turns); err != nil {
			return 0, 0, 0, fmt.Errorf("evictd: %w", err)
		}
		es, measuring = append(es, t.Took...), t.Measuring
	}
	return median(ks), median(es), measuring, nil
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond)) }
