// Package fault is what the matrix and its broken plugin say to each other: which
// fault, in which call.
package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
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
	// Waited is all calls that the host waits for before it evicts.
	Waited Call = "Observe, Measure, Rank"
)

// A Kind is a way to go wrong.
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
	// Wrong is a fault of the whole plugin, which no single answer shows. The variant names it;
	// "nothing" is none.
	Wrong Kind = "wrong"
)

// A Fault is one fault of one plugin.
type Fault struct {
	// Base is the plugin that is broken: memory, disk, pid; "spare" observes a
	// signal of its own, "trim" has a reclaim step of its own.
	Base string `json:"base"`
	Call Call   `json:"call"`
	Kind Kind   `json:"kind"`
	// Variant says which lie.
	Variant string `json:"variant,omitempty"`
	// Armed is a file: without it nothing goes wrong yet. Empty: from the start.
	Armed string `json:"armed,omitempty"`
	// Pressure is a file that puts what "spare" observes under pressure.
	Pressure string `json:"pressure,omitempty"`
	// Struck is a file that is made when it goes wrong.
	Struck string `json:"struck"`
	// Protected is the uid of a pod that must not be named.
	Protected string `json:"protected,omitempty"`
}

// TrailerBytes is the size of what is written after the program.
const TrailerBytes = 2048

// Install writes program with f at its end.
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
	return os.WriteFile(to, append(content, trailer...), 0o755)
}
