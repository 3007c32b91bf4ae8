package loop

import (
	"bytes"
	"errors"
	"runtime"
	"strconv"
)

var errReentered = errors.New("called from a function that the eviction manager calls and waits for: call it from another goroutine and do not wait for it")

// Reentered is an error if it is called from the loop's own goroutine, where waiting
// for the loop would never end: from a function of the embedding program that a pass
// has called.
func (l *Loop) Reentered() error {
	if l.runsIn.Load() == goroutine() {
		return errReentered
	}
	return nil
}

// goroutine is the number of this goroutine, as stacks show it ("goroutine 7 [...").
func goroutine() uint64 {
	var buf [32]byte
	fields := bytes.Fields(buf[:runtime.Stack(buf[:], false)])
	n, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return n
}
