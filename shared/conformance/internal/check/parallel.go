package check

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// GivenUp makes n calls at once and then n that are given up while they are on their way:
// at some time before so many at once were answered, which differs from machine to machine.
func GivenUp(ctx context.Context, n int, call func(context.Context) error) {
	begin := time.Now()
	_ = All(n, func(int) error { return call(ctx) })
	GivenUpWithin(ctx, max(time.Since(begin), Shortly), n, call)
}

// GivenUpWithin makes n calls at once, each of which is given up within d.
func GivenUpWithin(ctx context.Context, d time.Duration, n int, call func(context.Context) error) {
	_ = All(n, func(int) error { return Abandoned(ctx, d, call) })
}

// Abandoned makes a call that is given up within d: by a deadline, which the plugin knows
// of, or without notice. Of many each order of magnitude has its share, so that some meet
// the plugin at work also if the machine was slower while d was found than it is now.
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

// Shortly is before most plugins have begun to answer.
const Shortly = 2 * time.Millisecond

// All runs n calls at once and returns the first thing that went wrong.
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
