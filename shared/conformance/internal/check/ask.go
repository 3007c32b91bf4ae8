package check

import (
	"context"
	"time"
)

// A Run makes a check. It returns what it saw instead of the expected, nil if the check passed.
type Run = func(ctx context.Context, t *Target) error

// Ask makes a call with its own deadline and returns the answer.
func Ask[A any](ctx context.Context, t *Target, deadline time.Duration, call func(context.Context) (A, error)) (answer A, err error) {
	err = t.Within(ctx, deadline, func(ctx context.Context) error {
		answer, err = call(ctx)
		return err
	})
	return answer, err
}

// Later returns a check that judges the answer that an earlier check of its group has kept.
func Later[A any](judge func(*Target, A) error) Run {
	return func(_ context.Context, t *Target) error {
		if kept, ok := t.Kept.(A); ok {
			return judge(t, kept)
		}
		return ErrRestarted
	}
}

// A Request makes a valid request about the made-up pods from one number to another. It returns the call with that
// request, which takes a limit and returns what is wrong with the answer.
type Request func(ctx context.Context, t *Target, from, to int) func(context.Context, time.Duration) error

// Parallel returns a check that makes n calls at once, each about other pods.
func (r Request) Parallel(n, pods int, limit time.Duration) Run {
	return func(ctx context.Context, t *Target) error {
		calls := make([]func(context.Context, time.Duration) error, n)
		for i := range calls {
			calls[i] = r(ctx, t, i*pods, (i+1)*pods)
		}
		return All(n, func(i int) error { return calls[i](ctx, limit) })
	}
}

// Cancelled returns a check that makes n calls that end before their answer, and then one more.
func (r Request) Cancelled(n int, limit time.Duration) Run {
	return func(ctx context.Context, t *Target) error {
		many := r(ctx, t, 0, 100)
		GivenUp(ctx, n, func(ctx context.Context) error { return many(ctx, time.Second) })
		return r(ctx, t, 0, 1)(ctx, limit)
	}
}
