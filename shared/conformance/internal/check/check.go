// Package check has what checks are made of: what a check is, the plugin as checks call it,
// how a check may end. The checks themselves are in the packages beside it, one for each
// call, and package conformance runs them.
package check

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A Check is one thing to find out about a plugin.
type Check struct {
	Name string
	// RPC, Needs and Input are the group's where they are not given: the call that is checked,
	// what the plugin must offer for the check to apply, and the request to the plugin.
	RPC   string
	Needs eviction.Capability
	Input string
	// Expect describes the answer that the contract asks for.
	Expect string
	// Gate: without it, what comes after in the group says nothing.
	Gate bool
	// Warms: after it the process holds what it will hold.
	Warms bool
	// Configurable: the plugin must take a configuration.
	Configurable bool
	// Limit bounds the time of the check; Time when zero.
	Limit time.Duration
	// Run returns what was seen instead of what was expected, nil if that was it.
	Run func(ctx context.Context, t *Target) error
}

// Time is the usual limit of a check: calls with the longest deadline fit.
const Time = 6 * time.Second

// A Group is checks that run one after the other on a process of their own, so
// that a plugin that crashes or leaks does so where it can be seen.
type Group struct {
	Name string
	// RPC, Needs and Input are those of its checks that have none of their own.
	RPC   string
	Needs eviction.Capability
	Input string
	// Unless says why none of the checks applies to a target, "" if they do; nil is "".
	Unless func(*Target) string
	// Unconfigured: the checks begin before Configure.
	Unconfigured bool
	// Before is a call that the host makes before these, nil for none. If it ends the
	// process, the checks do without: another group checks that call.
	Before func(context.Context, *Target) error
	Checks []Check
}

// NotApplicable is returned by a check that says nothing of this plugin.
type NotApplicable string

func (n NotApplicable) Error() string { return string(n) }

// ErrRestarted is about what an earlier check of the group has seen.
const ErrRestarted = NotApplicable("the process was started anew since")

// Noted is returned by a check that saw something to report which breaks nothing.
type Noted string

func (n Noted) Error() string { return string(n) }

// Cannot is returned by a gate that the plugin refuses on this machine: a note, and
// the rest of the group says nothing.
type Cannot string

func (c Cannot) Error() string { return string(c) }

// Slow may come from a busy machine. The check is repeated once: a plugin that is slow
// fails it each time.
type Slow string

func (s Slow) Error() string { return string(s) }

// Answered passes over a refusal, which is an answer.
func Answered(err error) error {
	if errors.Is(err, eviction.ErrRefused) {
		return nil
	}
	return err
}

// Refused wants a refusal with a text.
func Refused(err error) error {
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

// Lines joins several texts.
func Lines(parts []string) string { return strings.Join(parts, "\n") }
