package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/garbage"
)

const (
	// spareDescriptors is by how many the open descriptors may grow: some files are
	// kept open once they were needed.
	spareDescriptors = 16
	// spareMemory is by how much the memory in use may grow: heaps of collected
	// languages grow with the largest messages.
	spareMemory = 128 << 20
	// settleTime bounds the time in which a process closes what it was done with and stops
	// working on it.
	settleTime = 2 * time.Second
	// idleWindow is the time over which a process is watched for work, and idleTime how much of
	// it may be work.
	idleWindow = 100 * time.Millisecond
	idleTime   = idleWindow / 2
)

// Usage reads it from /proc.
func (p *Process) Usage() check.Usage {
	dir := fmt.Sprintf("/proc/%d", p.PID())
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
	u.Children = childrenOf(p.PID())
	return u
}

// statOf are the fields of a stat file after the name, which may have blanks in it.
func statOf(dir string) [][]byte {
	raw, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil
	}
	return bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
}

// scheduled adds up the times of all threads (Documentation/scheduler/sched-stats.rst).
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

// childrenOf counts processes by their parent, also those that have ended and were
// not waited for.
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

// number is one of the fields, 0 if it is not there.
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
	// Busy: with nothing to answer it works on.
	Busy bool
}

// Grown compares a process with what it held when it was warm. It waits for
// descriptors that are being closed, and for a garbage collector to do so: large
// messages give it a reason.
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

// busy reports whether a process goes on computing for settleTime, of at least half the time.
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
