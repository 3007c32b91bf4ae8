package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/stack/crossing"
)

// A usage holds the CPU time, context switches and memory of a process.
type usage struct {
	cpu time.Duration
	// switches counts voluntary and involuntary context switches, by thread.
	switches map[string]int64
	pssBytes int64
}

// usageOf reads a process. CPU time is utime + stime of all threads, including dead ones, from
// the process's clock: /proc has it only in ticks of 10 ms.
func usageOf(pid int) (usage, error) {
	var t unix.Timespec
	const schedClock = 2 // CPUCLOCK_SCHED, see clock_getcpuclockid(3)
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &t); err != nil {
		return usage{}, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	u := usage{cpu: time.Duration(t.Nano()), switches: map[string]int64{}}
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return usage{}, err
	}
	u.pssBytes = field(rollup, "Pss:") << 10
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return usage{}, err
	}
	for _, task := range tasks {
		if status, err := os.ReadFile(task); err == nil { // else the thread has ended
			u.switches[task] = field(status, "voluntary_ctxt_switches:") + field(status, "nonvoluntary_ctxt_switches:")
		}
	}
	return u, nil
}

// switchesSince returns the number of context switches since a former reading.
func (u usage) switchesSince(former usage) int64 {
	var n int64
	for thread, count := range u.switches {
		n += count - former.switches[thread]
	}
	return n
}

// field returns the number after a key at the start of a line.
func field(text []byte, key string) int64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			if words := bytes.Fields(rest); len(words) > 0 {
				n, _ := strconv.ParseInt(string(words[0]), 10, 64)
				return n
			}
		}
	}
	return 0
}

// monotonic returns CLOCK_MONOTONIC, which all processes share.
func monotonic() time.Duration { return time.Duration(crossing.Now()) }
