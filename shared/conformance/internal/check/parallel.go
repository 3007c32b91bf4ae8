package check

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// GivenUp makes n calls at once, and then n that are cancelled at random times before the first
// n took to be answered, which depends on the machine.
func GivenUp(ctx context.Context, n int, call func(context.Context) error) {
	begin := time.Now()
	_ = All(n, func(int) error { return call(ctx) })
	GivenUpWithin(ctx, max(time.Since(begin), Shortly), n, call)
}

// GivenUpWithin makes n calls at once and cancels each at a random time within d.
func GivenUpWithin(ctx context.Context, d time.Duration, n int, call func(context.Context) error) {
	_ = All(n, func(int) error { return Abandoned(ctx, d, call) })
}

// Abandoned makes a call that ends within d, either by its deadline, which the plugin knows, or
// by a cancellation, which it does not. The time is random on a logarithmic scale, so that some
// of many calls end while the plugin works even if the machine was slower while d was measured.
func Abandoned(ctx context.Context, d time.Duration, call func(context.Context) error) error {
	const least = Shortly / 10
	after := time.Duration(float64(least) * math.Pow(float64(d)/float64(least), rand.Float64()))
	var cancel context.CancelFunc
	if rand.N(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, after)
	} else {
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(after, cancel).Stop()
	}
	defer cancel()
	return call(ctx)
}

// Shortly is a time in which most plugins have not begun to answer.
const Shortly = 2 * time.Millisecond

// All runs n calls at once and returns the first error.
func All(n int, call func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- call(i) }()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}
