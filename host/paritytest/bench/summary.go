package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/host/paritytest/embedded"
)

// whole times passes of the built plugins with a new summary in each: all three read and decode it.
func (b *bench) whole(ctx context.Context) error {
	fmt.Println("A whole pass of the built plugins with a new summary in each; medians in ms")
	fmt.Printf("%-8s %6s %10s\n", "", "pods", "evictd")
	for _, f := range families {
		for _, n := range sizes {
			s, err := scenario(f, n)
			if err != nil {
				return err
			}
			evictd, err := embedded.NewTimer(ctx, s, b.plugins, false)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			took, err := b.median(func() error {
				_, evicted, err := evictd.Pass(ctx)
				if err == nil && evicted != 1 {
					err = fmt.Errorf("%d pods went in a pass, want 1", evicted)
				}
				return err
			})
			if err := errors.Join(err, evictd.Stop()); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			fmt.Printf("%-8s %6d %10s\n", f.name, n, ms(took))
		}
	}
	return nil
}

// median returns the median duration of do, called for the budget.
func (b *bench) median(do func() error) (time.Duration, error) {
	const warm, least = 2, 5
	var all []time.Duration
	end := time.Now().Add(b.budget)
	for i := 0; i < warm+least || time.Now().Before(end); i++ {
		began := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		if i >= warm {
			all = append(all, time.Since(began))
		}
	}
	return median(all), nil
}
