package loop

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutine is the number of this goroutine, as stacks show it ("goroutine 7 [...").
func goroutine() uint64 {
	var buf [32]byte
	fields := bytes.Fields(buf[:runtime.Stack(buf[:], false)])
	n, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return n
}
