package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// The deadlines that the host has for its calls.
const (
	describeTime  = eviction.DescribeDeadline
	configureTime = eviction.ConfigureDeadline
	observeTime   = eviction.ObserveDeadline
	measureTime   = eviction.MeasureDeadline
	rankTime      = eviction.RankDeadline
)

// A check is one thing to find out about a plugin.
type check struct {
	name string
	// rpc and needs are the group's where they are not said: the call that is checked,
	// and what the plugin must offer for the check to apply.
	rpc   string
	needs eviction.Capability
	// input describes the request to the plugin, expect the answer that the contract asks for.
	input, expect string
	// gate: without it, what comes after in the group says nothing.
	gate bool
	// warms: after it the process holds what it will hold.
	warms bool
	// configurable: the plugin must take a configuration.
	configurable bool
	// limit bounds the time of the check; checkTime when zero.
	limit time.Duration
	// run returns what was seen instead of what was expected, nil if that was it.
	run func(ctx context.Context, t *target) error
}

// checkTime is the usual limit of a check: calls with the longest deadline fit.
const checkTime = 6 * time.Second

// notApplicable is returned by a check that says nothing of this plugin.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }

// errAnew is about what an earlier check of the group has seen.
const errAnew = notApplicable("the process was started anew since")

// noted is returned by a check that saw something to tell which breaks nothing.
type noted string

func (n noted) Error() string { return string(n) }

// cannot is returned by a gate that the plugin refuses on this machine: a note, and
// the rest of the group says nothing.
type cannot string

func (c cannot) Error() string { return string(c) }

// within makes one call with a deadline of its own.
func (o *Options) within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	limit = o.patient(limit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return slow{fmt.Errorf("no answer within %s", limit)}
	}
	return err
}

// patient is d on a machine that is known to be busy.
func (o *Options) patient(d time.Duration) time.Duration { return d * max(1, o.patience) }

// A slow error may come from a busy machine. The check is repeated once: a plugin that is slow
// fails it each time.
type slow struct{ error }

// answered passes over a refusal, which is an answer.
func answered(err error) error {
	if errors.Is(err, eviction.ErrRefused) {
		return nil
	}
	return err
}

// refused wants a refusal with a text.
func refused(err error) error {
	switch {
	case err == nil:
		return errors.New("it was accepted")
	case !errors.Is(err, eviction.ErrRefused):
		return err
	case err.Error() == eviction.ErrRefused.Error()+": ":
		return errors.New("it was refused without a text")
	}
	return nil
}

// givenUp makes n calls at once and then n that are given up while they are on their way:
// at some time before so many at once were answered, which differs from machine to machine.
func givenUp(ctx context.Context, n int, call func(context.Context) error) {
	begin := time.Now()
	_ = all(n, func(int) error { return call(ctx) })
	givenUpWithin(ctx, max(time.Since(begin), shortly), n, call)
}

// givenUpWithin makes n calls at once, each of which is given up within d.
func givenUpWithin(ctx context.Context, d time.Duration, n int, call func(context.Context) error) {
	_ = all(n, func(int) error { return abandoned(ctx, d, call) })
}

// abandoned makes a call that is given up within d: by a deadline, which the plugin knows
// of, or without notice. Of many each order of magnitude has its share, so that some meet
// the plugin at work also if the machine was slower while d was found than it is now.
func abandoned(ctx context.Context, d time.Duration, call func(context.Context) error) error {
	const least = shortly / 10
	patience := time.Duration(float64(least) * math.Pow(float64(d)/float64(least), rand.Float64()))
	var cancel context.CancelFunc
	if rand.N(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, patience)
	} else {
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(patience, cancel).Stop()
	}
	defer cancel()
	return call(ctx)
}

// shortly is before most plugins have begun to answer.
const shortly = 2 * time.Millisecond

// all runs n calls at once and returns the first thing that went wrong.
func all(n int, call func(i int) error) error {
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
