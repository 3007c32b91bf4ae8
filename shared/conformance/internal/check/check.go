// Package check has the building blocks of checks: what a check is, the plugin under test
// and how a check can end. Sibling packages, one for each call, hold the checks themselves;
// package conformance runs them.
package check

import (
	"errors"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A Check is one requirement to test.
type Check struct {
	Name string
	// RPC, Needs and Input default to the group's: the call that is checked, the capabilities
	// that the plugin must offer for the check to apply, and the request to the plugin.
	RPC   string
	Needs eviction.Capability
	Input string
	// Expect describes the answer that the contract asks for.
	Expect string
	// Gate: if the check fails, the rest of the group is skipped.
	Gate bool
	// Warms: after the check, the process has allocated what it needs in the long run.
	Warms bool
	// Configurable: the plugin must take a configuration.
	Configurable bool
	// Limit is the time limit of the check; 0 means Time.
	Limit time.Duration
	Run   Run
}

// Time is the usual limit of a check; a call with the longest deadline fits into it.
const Time = 6 * time.Second

// A Group is a sequence of checks that run on their own process, so that a crash or a leak
// can be attributed to them.
type Group struct {
	Name string
	// RPC, Needs and Input are the defaults of its checks.
	RPC   string
	Needs eviction.Capability
	Input string
	// Unless says why the group does not apply to a target, "" if it does; nil means it does.
	Unless func(*Target) string
	// Unconfigured: the checks begin before Configure.
	Unconfigured bool
	// Before makes a call that the host makes before these, nil for none. If the process crashes
	// on it, the checks run without it: another group checks that call.
	Before Run
	Checks []Check
}

// NotApplicable is the error of a check that does not apply to this plugin.
type NotApplicable string

func (n NotApplicable) Error() string { return string(n) }

// ErrRestarted means that the result of an earlier check is lost.
const ErrRestarted = NotApplicable("the process was started anew since")

// Noted is the error of a check that saw something worth reporting that breaks nothing.
type Noted string

func (n Noted) Error() string { return string(n) }

// Cannot is the error of a gate that the plugin refuses on this machine. It counts as a note,
// and the rest of the group is skipped.
type Cannot string

func (c Cannot) Error() string { return string(c) }

// Slow is the error of a call that is too slow, perhaps because the machine is busy. The check
// is repeated once: a slow plugin fails both times.
type Slow string

func (s Slow) Error() string { return string(s) }

// Answered returns nil for a refusal, which is an answer too, else err.
func Answered(err error) error {
	if errors.Is(err, eviction.ErrRefused) {
		return nil
	}
	return err
}

// Refused returns an error unless err is a refusal with a text.
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

// Lines joins texts with line breaks.
func Lines(parts []string) string { return strings.Join(parts, "\n") }
