package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/garbage"
)

const (
	// spareDescriptors bounds the growth of open descriptors: some files stay open after their first use.
	spareDescriptors = 16
	// spareMemory is the growth of memory that is allowed, in bytes: heaps of garbage-collected
	// languages grow with the largest messages.
	spareMemory = 128 << 20
	// settleTime limits the time in which a process must close what it no longer needs and stop
	// working.
	settleTime = 2 * time.Second
	// idleWindow is the period over which the work of a process is measured. A process that works
	// less than idleTime of it is idle.
	idleWindow = 100 * time.Millisecond
	idleTime   = idleWindow / 2
)

// Usage implements check.Server.
func (p *Process) Usage() check.Usage { return usageOf(p.PID()) }

// OwnUsage returns the usage of this process.
func OwnUsage() check.Usage {
	var self unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &self)
	return check.Usage{Threads: runtime.NumGoroutine(), Ran: time.Duration(self.Utime.Nano() + self.Stime.Nano()), Shared: true}
}

// usageOf reads from /proc.
func usageOf(pid int) check.Usage {
	dir := fmt.Sprintf("/proc/%d", pid)
	entries, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return check.Usage{}
	}
	raw, err := os.ReadFile(dir + "/statm")
	if err != nil {
		return check.Usage{}
	}
	u := check.Usage{Descriptors: len(entries), RSSBytes: number(bytes.Fields(raw), 1) * int64(os.Getpagesize())}
	stat := statOf(dir)
	u.Threads = int(number(stat, 17))
	scheduled(dir, &u)
	u.Children = childrenOf(pid)
	return u
}

// statOf returns the fields of a stat file after the name, which may contain blanks.
func statOf(dir string) [][]byte {
	raw, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil
	}
	return bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
}

// scheduled adds the times of all threads to u (Documentation/scheduler/sched-stats.rst).
func scheduled(dir string, u *check.Usage) {
	threads, _ := filepath.Glob(dir + "/task/*")
	for _, thread := range threads {
		if raw, err := os.ReadFile(thread + "/schedstat"); err == nil {
			u.Ran += time.Duration(number(bytes.Fields(raw), 0))
			u.Ready += time.Duration(number(bytes.Fields(raw), 1))
		}
		if stat := statOf(thread); len(stat) > 0 && string(stat[0]) == "R" {
			u.Runnable = true
		}
	}
}

// childrenOf counts the children of a process, also those that ended and were not waited for.
func childrenOf(pid int) int {
	all, _ := filepath.Glob("/proc/[0-9]*")
	n := 0
	for _, dir := range all {
		if number(statOf(dir), 1) == int64(pid) {
			n++
		}
	}
	return n
}

// number returns fields[i] as a number, 0 if it does not exist.
func number(fields [][]byte, i int) int64 {
	if i >= len(fields) {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[i]), 10, 64) // 0 if it is none
	return n
}

// Growth is the increase of a process's resources over all the checks of a group.
type Growth struct {
	Group                 string
	Descriptors, RSSBytes int64
	// Busy: the process goes on working although it has no calls to answer.
	Busy bool
}

// Grown compares a process with what it held when it was warm. It waits for descriptors to be
// closed, and sends large messages meanwhile to provoke garbage collection, which may close some.
func Grown(ctx context.Context, group string, t *check.Target, before check.Usage) Growth {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		now := t.Usage()
		more := now.Descriptors - before.Descriptors
		if more <= spareDescriptors || time.Since(begin) > settleTime {
			return Growth{group, int64(more), now.RSSBytes - before.RSSBytes, busy(t)}
		}
		_ = garbage.Large(ctx, t)
	}
}

// busy reports whether a process works at least half of the time throughout settleTime.
func busy(t *check.Target) bool {
	tick := time.NewTicker(idleWindow)
	defer tick.Stop()
	was := t.Usage()
	for begin := time.Now(); time.Since(begin) < t.Patient(settleTime); {
		<-tick.C
		now := t.Usage()
		if !now.Runnable && now.Ran+now.Ready-was.Ran-was.Ready < idleTime {
			return false
		}
		was = now
	}
	return true
}
