package conformance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
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

// usage holds the resources of a process.
type usage struct {
	descriptors, threads, children int
	rssBytes                       int64
	// ran is the time its threads have run, ready the time they have waited for a processor: a
	// machine that is busy otherwise does not make a process idle.
	ran, ready time.Duration
	// runnable: a thread runs or waits for a processor. How long it has waited is counted
	// only when it gets one.
	runnable bool
}

// usage reads it from /proc; the zero usage is that it cannot be read.
func (p *process) usage() usage {
	dir := fmt.Sprintf("/proc/%d", p.PID())
	entries, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return usage{}
	}
	raw, err := os.ReadFile(dir + "/statm")
	if err != nil {
		return usage{}
	}
	u := usage{descriptors: len(entries), rssBytes: number(bytes.Fields(raw), 1) * int64(os.Getpagesize())}
	stat := statOf(dir)
	u.threads = int(number(stat, 17))
	u.scheduled(dir)
	u.children = childrenOf(p.PID())
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
func (u *usage) scheduled(dir string) {
	threads, err := filepath.Glob(dir + "/task/*")
	if err != nil {
		return
	}
	for _, thread := range threads {
		if raw, err := os.ReadFile(thread + "/schedstat"); err == nil {
			u.ran += time.Duration(number(bytes.Fields(raw), 0))
			u.ready += time.Duration(number(bytes.Fields(raw), 1))
		}
		if stat := statOf(thread); len(stat) > 0 && string(stat[0]) == "R" {
			u.runnable = true
		}
	}
}

// childrenOf counts processes by their parent, also those that have ended and were
// not waited for.
func childrenOf(pid int) int {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
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
	n, err := strconv.ParseInt(string(fields[i]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// growth is the increase of a process's resources over all the checks of a group.
type growth struct {
	group string
	usage
	// busy: with nothing to answer it works on.
	busy bool
}

// busy reports whether a process goes on computing for d, of at least half the time.
func (p *process) busy(d time.Duration) bool {
	tick := time.NewTicker(idleWindow)
	defer tick.Stop()
	was := p.usage()
	for begin := time.Now(); time.Since(begin) < d; {
		<-tick.C
		now := p.usage()
		if !now.runnable && now.ran+now.ready-was.ran-was.ready < idleTime {
			return false
		}
		was = now
	}
	return true
}
