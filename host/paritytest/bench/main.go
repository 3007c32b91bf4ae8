// Bench times a pass that ranks all pods and has one killed: evictd's through
// plugin processes against the kubelet's own manager, in one run, with the same
// figures ready on both sides. What evictd's plugins take to get figures from a
// summary stands on lines of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/evictd/evictd/host/paritytest/embedded"
	"github.com/evictd/evictd/host/paritytest/kubelet"
)

// sizes are numbers of pods. The largest is more than a node has; there it is the
// growth that counts.
var sizes = []int{110, 500, 1000, 5000}

type bench struct {
	kubelet *kubelet.Kubelet
	// plugins and ready are directories of plugins: those of the build, and those
	// that have their figures ready.
	plugins, ready string
	budget         time.Duration
}

func main() {
	plugins := flag.String("plugins", "../../bin/plugins", "the directory of the built plugins")
	ready := flag.String("readymade", "../../bin/readymade", "the plugin that has its figures ready")
	budget := flag.Duration("budget", time.Second, "for how long each figure is measured, on each side")
	flag.Parse()
	if err := run(context.Background(), *plugins, *ready, *budget); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, plugins, ready string, budget time.Duration) (err error) {
	k, err := kubelet.New()
	if err != nil {
		return err
	}
	b := &bench{kubelet: k, budget: budget}
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
	return b.summaries(ctx)
}

// passes compares whole passes with figures that are ready.
func (b *bench) passes(ctx context.Context) error {
	fmt.Println("A pass with ranking and one kill, figures ready on both sides; medians in ms")
	fmt.Println("\"Measure\" is what evictd's takes to get the ready figures out of the plugin's process; the kubelet's has them at hand.")
	fmt.Printf("%-8s %6s %10s %10s %8s %10s %22s\n", "", "pods", "kubelet", "evictd", "faster", "Measure", "faster without Measure")
	for _, f := range families {
		var theirs, ours []time.Duration
		for _, n := range sizes {
			s, err := scenario(f, n)
			if err != nil {
				return err
			}
			timer, err := b.kubelet.Timer(s)
			if err != nil {
				return err
			}
			evictd, err := embedded.NewTimer(ctx, s, b.ready, true)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			k, e, err := b.compare(ctx, timer.Pass, evictd.Pass)
			if err := errors.Join(err, evictd.Stop()); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			theirs, ours = append(theirs, k), append(ours, e)
			m := evictd.Measuring()
			fmt.Printf("%-8s %6d %10s %10s %7.1fx %10s %21.1fx\n", f.name, n, ms(k), ms(e), float64(k)/float64(e), ms(m), float64(k)/float64(e-m))
		}
		const from, to = 1, 3 // 500 to 5000 pods
		fmt.Printf("%-8s from %d to %d pods: kubelet %.1f times, evictd %.1f times as long\n", f.name, sizes[from], sizes[to],
			float64(theirs[to])/float64(theirs[from]), float64(ours[to])/float64(ours[from]))
	}
	return nil
}

// pass is one pass: how long it took and how many pods went.
type pass func(context.Context) (time.Duration, int, error)

// compare lets the sides take turns, some passes each, and returns medians: a noisy
// moment is noisy for both, and neither collects the other's garbage.
func (b *bench) compare(ctx context.Context, theirs, ours pass) (k, e time.Duration, err error) {
	const turns = 4
	var ks, es []time.Duration
	for range turns {
		for _, side := range []struct {
			pass pass
			took *[]time.Duration
		}{{theirs, &ks}, {ours, &es}} {
			took, err := turn(ctx, side.pass, b.budget/turns)
			if err != nil {
				return 0, 0, err
			}
			*side.took = append(*side.took, took...)
		}
	}
	return median(ks), median(es), nil
}

// turn makes passes for a while, the first one to warm up.
func turn(ctx context.Context, p pass, budget time.Duration) ([]time.Duration, error) {
	const least = 3
	runtime.GC()
	var all []time.Duration
	for end := time.Now().Add(budget); len(all) < 1+least || time.Now().Before(end); {
		took, evicted, err := p(ctx)
		if err != nil {
			return nil, err
		}
		if evicted != 1 {
			return nil, fmt.Errorf("%d pods went in a pass, want 1", evicted)
		}
		all = append(all, took)
	}
	return all[1:], nil
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond)) }
