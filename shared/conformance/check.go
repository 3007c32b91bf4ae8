package conformance

import (
	"context"
	"errors"
	"fmt"
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
	name, rpc, input, expect string
	// gate: without it, what comes after in the group says nothing.
	gate bool
	// warms: after it the process holds what it will hold.
	warms bool
	// needs is what the plugin must offer for the check to apply.
	needs eviction.Capability
	// configurable: the plugin must take a configuration.
	configurable bool
	// process: there must be a process.
	process bool
	// limit is what the check may take, checkTime when zero.
	limit time.Duration
	// run returns what was seen instead of what was expected, nil if that was it.
	run func(ctx context.Context, t *target) error
}

// checkTime is the usual limit of a check: calls with the longest deadline fit.
const checkTime = 6 * time.Second

// notApplicable is returned by a check that says nothing of this plugin.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }

// noted is returned by a check that saw something to tell which breaks nothing.
type noted string

func (n noted) Error() string { return string(n) }

// cannot is returned by a gate that the plugin refuses on this machine: a note, and
// the rest of the group says nothing.
type cannot string

func (c cannot) Error() string { return string(c) }

// missing says why a check does not apply to a plugin, "" if it does.
func (c *check) missing(t *target) string {
	if t == nil {
		return ""
	}
	if c.process && t.proc == nil {
		return "a value has no process of its own"
	}
	if c.configurable && t.plugin.Configurer == nil {
		return "it takes no configuration"
	}
	for one := range c.needs.Each() {
		if len(t.offering(one)) == 0 {
			return "it does not offer to " + one.String()
		}
	}
	return ""
}

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

// slow is what a busy machine may be the reason of. The check is made once more: a
// plugin that is slow is so each time.
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
