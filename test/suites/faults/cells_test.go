package faults

import (
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/test/fakes/broken/fault"
)

// What is broken: the built-in plugin, a custom one beside it that offers the
// same, or the only observer of a signal that the host cannot read.
const (
	builtin = "built-in"
	custom  = "custom"
	only    = "only observer"
	// A custom one that evictd has not started.
	socket = "socket"
)

// The ways in which a cell may end.
const (
	evicted  = "evicted"
	reported = "reported"
	believed = "believed"
)

// A cell is one fault and how it must end.
type cell struct {
	who string
	fault.Fault
	outcome string
	// victims may go. There are two where it depends on whether the disk plugin, which comes
	// and goes, has measured: the host does not measure disks by itself.
	victims []string
	// budget bounds the decision: the deadlines that apply, added up.
	budget time.Duration
	sum    string // what they are
}

// The deadlines in force, all the defaults.
const (
	interval    = 10 * time.Second // monitoringInterval: signals that nobody watches
	blind       = time.Second      // until the host reads by itself, and then between two looks
	observing   = time.Second
	measuring   = 5 * time.Second
	ranking     = time.Second
	reclaiming  = 30 * time.Second // without progress
	deciding    = time.Second      // for all custom plugins together, before a pod goes for memory or tasks
	detail      = 250 * time.Millisecond
	noDeadlines = 0
)

// cells is the whole matrix.
func cells() []cell {
	var all []cell
	for _, f := range fault.All() {
		base := "memory"
		if f.Call == fault.Reclaim {
			base = "disk"
		}
		all = append(all, newCell(builtin, base, f.Call, f.Kind, f.Variant))
		if f.Call == fault.Reclaim {
			base = "trim"
		}
		all = append(all, newCell(custom, base, f.Call, f.Kind, f.Variant), newCell(socket, base, f.Call, f.Kind, f.Variant))
		if f.Call == fault.Describe || f.Call == fault.Configure || f.Call == fault.Observe {
			all = append(all, newCell(only, "spare", f.Call, f.Kind, f.Variant))
		}
	}
	for _, who := range []string{builtin, custom, socket} {
		all = append(all, newCell(who, "memory", fault.Waited, fault.Slow, ""))
	}
	for _, base := range []string{"disk", "pid"} {
		for _, v := range fault.Plausible {
			all = append(all, newCell(custom, base, fault.Observe, fault.Lie, v))
		}
		for _, kind := range []fault.Kind{fault.Hang, fault.Crash, fault.Error, fault.Late} {
			all = append(all, newCell(builtin, base, fault.Observe, kind, ""))
		}
	}
	return all
}

func newCell(who, base string, call fault.Call, kind fault.Kind, variant string) cell {
	c := cell{who: who, Fault: fault.Fault{Base: base, Call: call, Kind: kind, Variant: variant}, outcome: evicted, victims: []string{greedy}}
	switch {
	case slices.Contains(fault.Plausible, variant) && (who != custom && who != socket || base == "disk"):
		c.believed()
	case who == builtin:
		c.builtin()
	case who == custom, who == socket:
		c.custom()
	case who == only:
		c.only()
	}
	return c
}

func (c *cell) takes(sum string, d time.Duration) { c.sum, c.budget = sum, d }

func (c *cell) slow() bool {
	return c.Kind == fault.Hang || c.Kind == fault.Late || c.Kind == fault.Slow
}

// waitedFor reports whether an eviction waits for the call.
func (c *cell) waitedFor() bool {
	return slices.Contains([]fault.Call{fault.Observe, fault.Measure, fault.Rank, fault.Waited}, c.Call)
}

// inTime reports whether answers come, though late.
func (c *cell) inTime() bool { return c.Kind == fault.Slow }

// believed says how a lie ends that nobody but its plugin could find: what it says is
// all that there is.
func (c *cell) believed() {
	c.outcome = believed
	c.takes("no other observer", 2*interval)
	if c.Variant == "constant" {
		c.takes("no other observer, for 2 minutes", 2*interval)
	}
}

// builtin says how a fault of a built-in plugin ends. Nobody but the host stands in
// for it, which measures memory and tasks of pods by itself, but no disks.
func (c *cell) builtin() {
	switch c.Call {
	case fault.Describe, fault.Configure:
		c.takes("look 1 s", blind)
		if c.Variant == "other signals" {
			c.outcome = reported // as if it was never meant to
		}
	case fault.Observe:
		c.builtinObserve()
	case fault.Waited:
		c.takes("Observe 1 s + Measure 5 s + Rank 1 s + details 0.25 s", observing+measuring+ranking+detail)
	case fault.Measure:
		c.takes("none", noDeadlines)
		if c.slow() {
			c.takes("Measure 5 s + details 0.25 s", measuring+detail)
		}
	case fault.Rank:
		c.takes("none", noDeadlines)
		if c.slow() {
			c.takes("Rank 1 s", ranking)
		}
	case fault.Watch:
		c.takes("interval 10 s", interval)
		if c.Kind == fault.Crash {
			c.takes("blind 1 s + interval 10 s", blind+interval)
		}
	case fault.Reclaim:
		c.takes("interval 10 s", interval)
		if c.slow() {
			c.takes("interval 10 s + Reclaim 30 s", interval+reclaiming)
		}
		if c.Kind == fault.Crash {
			c.victims = []string{greedy, lowly}
		}
	}
}

func (c *cell) builtinObserve() {
	c.takes("blind 1 s", blind)
	switch {
	case c.Variant == "negative available":
		c.takes("none", noDeadlines) // below zero is below the threshold
	case c.inTime():
		c.takes("Observe 1 s", observing)
	case c.slow():
		c.takes("Observe 1 s + blind 1 s", observing+blind)
	}
	if c.Base != "memory" { // nobody watches these
		c.takes("interval 10 s + "+c.sum, interval+c.budget)
	}
	if c.Base == "pid" {
		c.victims = []string{lowly} // priority counts before use
	}
	if c.Base == "disk" && c.Kind != fault.Error {
		c.victims = []string{greedy, lowly}
	}
}

// custom says how a fault of a custom plugin ends: the built-in one stands in.
func (c *cell) custom() {
	c.takes("none", noDeadlines)
	switch {
	case c.Base == "pid": // nobody watches it, and priority counts before use
		c.takes("interval 10 s", interval)
		c.victims = []string{lowly}
	case c.Call == fault.Reclaim && c.slow():
		c.takes("interval 10 s + Reclaim 30 s", interval+reclaiming)
	case c.Call == fault.Reclaim:
		c.takes("interval 10 s", interval)
	case c.waitedFor() && c.slow():
		c.takes("decision 1 s", deciding)
	}
}

// only says how a fault of an observer ends that nobody stands in for.
func (c *cell) only() {
	c.outcome = reported
	c.takes("interval 10 s", interval)
	switch {
	case c.inTime() && c.Call == fault.Observe:
		c.outcome, c.victims = evicted, []string{lowly} // nobody has figures of pods
		c.takes("interval 10 s + Observe 1 s", interval+observing)
	case c.Call == fault.Observe && c.slow():
		c.takes("interval 10 s + Observe 1 s", interval+observing)
	case c.inTime():
		c.outcome, c.victims = evicted, []string{lowly}
	case c.Variant == "negative available":
		c.outcome, c.victims = evicted, []string{lowly} // below zero is below the threshold; nobody has figures of pods
	case c.Variant == "not applied":
		c.outcome, c.victims = evicted, []string{lowly} // its figures can be had; there are none of pods
	}
}

// row is the fault, as the table names it.
func (c *cell) row() string {
	if c.Variant == "" {
		return string(c.Kind)
	}
	return fmt.Sprintf("%s: %s", c.Kind, c.Variant)
}

func (c *cell) name() string { return fmt.Sprintf("%s/%s/%s/%s", c.Call, c.row(), c.who, c.Base) }
