// Package fault describes, for the fault matrix and its broken plugin, which fault occurs in
// which call.
package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
)

// A Call is a call of the contract.
type Call string

// The calls.
const (
	Describe  Call = "Describe"
	Configure Call = "Configure"
	Observe   Call = "Observe"
	Measure   Call = "Measure"
	Watch     Call = "Watch"
	Rank      Call = "Rank"
	Reclaim   Call = "Reclaim"
	// Waited stands for all calls that the host waits for before it evicts.
	Waited Call = "Observe, Measure, Rank"
)

// A Kind is a kind of fault.
type Kind string

// The kinds.
const (
	Hang      Kind = "hang"
	Crash     Kind = "crash"
	Error     Kind = "error"
	Lie       Kind = "lie"
	Flood     Kind = "flood"
	Oversized Kind = "oversized"
	Late      Kind = "late"
	// Slow answers just before the deadline.
	Slow Kind = "slow"
	// Trickle never ends, but shows signs of life: a measurement of some pod, progress of a step.
	Trickle Kind = "trickle"
	// Wrong is a fault of the whole plugin that no single answer shows. The variant names it;
	// "nothing" means no fault.
	Wrong Kind = "wrong"
)

// A Fault is one fault of one plugin.
type Fault struct {
	// Base is the plugin to break: memory, disk, pid; "spare" observes a custom
	// signal, "trim" has a custom reclaim step for disks, "drop" one for memory.
	Base string `json:"base"`
	Call Call   `json:"call"`
	Kind Kind   `json:"kind"`
	// Variant names the lie or the wrong behavior.
	Variant string `json:"variant,omitempty"`
	// Armed is a file without which the fault does not occur yet. Empty: it always occurs.
	Armed string `json:"armed,omitempty"`
	// Pressure is a file that, if it exists, puts the signal of "spare" under pressure.
	Pressure string `json:"pressure,omitempty"`
	// Struck is a file that the plugin creates when the fault occurs.
	Struck string `json:"struck"`
	// Protected is the UID of a pod that the plugin must not name.
	Protected string `json:"protected,omitempty"`
}

// TrailerBytes is the size of the fault appended to the program.
const TrailerBytes = 2048

// Install writes program to a file and appends f to it.
func Install(program, to string, f Fault) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if len(text) > TrailerBytes {
		return fmt.Errorf("fault of %d bytes, want at most %d", len(text), TrailerBytes)
	}
	trailer := append(text, bytes.Repeat([]byte(" "), TrailerBytes-len(text))...)
	// A child that is forked meanwhile would keep the file open for writing, and its start would fail
	// with "text file busy".
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(to, append(content, trailer...), 0o755)
}
