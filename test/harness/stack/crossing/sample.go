package crossing

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	childEnv = "EVICTD_CROSSING_SAMPLER" // the cgroup to sample
	period   = time.Millisecond
	// reportEvery is the time between two reports while the threshold is not crossed.
	reportEvery = 100 * time.Millisecond
)

// RunIfChild runs the sampler, and does not return, if Start has started this process as one.
// Call it first in main or TestMain.
func RunIfChild() {
	group := os.Getenv(childEnv)
	if group == "" {
		return
	}
	if err := sample(group); err != nil {
		fmt.Fprintln(os.Stderr, "sampler:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// sample reads thresholds from stdin, one per line, each of which arms it again. It writes "s NS
// AVAILABLE" regularly, and "x NS AVAILABLE GAP" for the first sample below the threshold, where
// GAP is the time in nanoseconds since the previous sample. It ends when stdin does.
func sample(group string) error {
	m, err := openMemory(group)
	if err != nil {
		return err
	}
	// The sampler must not be late: it has its own thread, high priority and no GC.
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) // best effort; GAP shows the result

	var armed atomic.Int64
	var ended atomic.Bool
	go func() { // ends with the process
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if threshold, err := strconv.ParseInt(strings.TrimSpace(in.Text()), 10, 64); err == nil {
				armed.Store(threshold)
			}
		}
		ended.Store(true)
	}()
	line := make([]byte, 0, 128)
	last, reported := Now(), int64(0)
	for next := last; !ended.Load(); next = max(next+int64(period), Now()) {
		wait := unix.NsecToTimespec(next)
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &wait, nil); err != nil && err != unix.EINTR {
			return err
		}
		available, err := m.available()
		if err != nil {
			return err
		}
		now, threshold := Now(), armed.Load()
		line = line[:0]
		switch {
		case available < threshold && armed.CompareAndSwap(threshold, 0):
			line = fmt.Appendf(line, "x %d %d %d\n", now, available, now-last)
		case now-reported >= int64(reportEvery):
			reported = now
			line = fmt.Appendf(line, "s %d %d\n", now, available)
		}
		if len(line) > 0 {
			if _, err := os.Stdout.Write(line); err != nil {
				return err
			}
		}
		last = now
	}
	return nil
}
