package conformance

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A Result is the outcome of a check.
type Result string

// The results. A Note is something that the plugin's author should know but that breaks nothing.
const (
	Passed  Result = "ok"
	Failed  Result = "FAIL"
	Skipped Result = "skipped"
	Note    Result = "note"

	// notOffered means Skipped with Check.Inapplicable set.
	notOffered Result = "not offered"
)

// A Check is one requirement of the contract and how the plugin met it.
type Check struct {
	// Name is unique and stays the same from version to version.
	Name string `json:"name"`
	// RPC is the call that is checked, or the phase in the life of the process.
	RPC string `json:"rpc"`
	// Input says what the plugin was given, Expected what the contract asks for.
	Input    string `json:"input"`
	Expected string `json:"expected"`
	Result   Result `json:"result"`
	// Inapplicable: the check was skipped because the plugin does not offer what it checks.
	Inapplicable bool `json:"inapplicable,omitempty"`
	// Seen says what happened instead, or why the check was skipped.
	Seen string `json:"seen,omitempty"`
	// Took is the duration of the check.
	Took time.Duration `json:"tookNanos"`
}

func (c *Check) end(result Result, seen string) {
	c.Result, c.Seen = result, seen
	if result == notOffered {
		c.Result, c.Inapplicable = Skipped, true
	}
}

// String formats the result; for a check that did not pass, with all that its author needs to
// find the fault.
func (c *Check) String() string {
	if c.Result == Passed {
		return fmt.Sprintf("%s: %s", c.Name, c.Result)
	}
	return fmt.Sprintf("%s: %s\n  call:     %s\n  input:    %s\n  expected: %s\n  seen:     %s", c.Name, c.Result, c.RPC, c.Input, c.Expected, c.Seen)
}

// A Description holds the plugin's answer to Describe.
type Description struct {
	Name         string              `json:"name"`
	Version      string              `json:"version"`
	Configurable bool                `json:"configurable"`
	OwnsLayout   bool                `json:"ownsLayout"`
	Signals      []SignalDescription `json:"signals"`
}

// A SignalDescription lists the capabilities and reclaim steps of a signal.
type SignalDescription struct {
	Signal eviction.Signal `json:"signal"`
	Offers []string        `json:"offers"`
	// Steps are the names of the reclaim steps.
	Steps []string `json:"steps,omitempty"`
}

// Reclaimed sums up the calls of Reclaim and the amounts that the plugin reported.
type Reclaimed struct {
	Calls  int   `json:"calls"`
	Bytes  int64 `json:"bytes"`
	Inodes int64 `json:"inodes"`
}

// A Report is the outcome of all checks.
type Report struct {
	// Plugin is nil if the plugin could not describe itself.
	Plugin *Description `json:"plugin"`
	// Only are the groups of checks that were requested; empty means all.
	Only   []string `json:"only,omitempty"`
	Checks []Check  `json:"checks"`
	// Reclaimed is nil if no reclaim step was run.
	Reclaimed *Reclaimed    `json:"reclaimed,omitempty"`
	Took      time.Duration `json:"tookNanos"`
}

// Count returns the number of checks with the given result.
func (r *Report) Count(result Result) int {
	n := 0
	for i := range r.Checks {
		if r.Checks[i].Result == result {
			n++
		}
	}
	return n
}

// OK reports whether no check failed.
func (r *Report) OK() bool { return r.Count(Failed) == 0 }

func describePlugin(p *eviction.Plugin) *Description {
	d := &Description{Name: p.Name, Version: p.Version, Configurable: p.Configurer != nil, OwnsLayout: p.OwnsLayout}
	for _, s := range p.Signals {
		one := SignalDescription{Signal: s.Signal, Offers: p.For(s.Signal).Names()}
		for _, step := range s.ReclaimSteps {
			one.Steps = append(one.Steps, step.Name)
		}
		d.Signals = append(d.Signals, one)
	}
	return d
}
