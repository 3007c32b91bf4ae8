package conformance

import (
	"bytes"
	"context"
	"fmt"
	"os"
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
	// settleTime is how long a process may take to close what it was done with.
	settleTime = 2 * time.Second
)

// usage is what a process holds.
type usage struct {
	descriptors int
	rssBytes    int64
}

// usage reads it from /proc; the zero usage is that it cannot be read.
func (p *process) usage() usage {
	dir := fmt.Sprintf("/proc/%d", p.cmd.Process.Pid)
	entries, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return usage{}
	}
	raw, err := os.ReadFile(dir + "/statm")
	if err != nil {
		return usage{}
	}
	return usage{descriptors: len(entries), rssBytes: residentPages(raw) * int64(os.Getpagesize())}
}

// residentPages reads the second figure of /proc/PID/statm.
func residentPages(statm []byte) int64 {
	parts := bytes.Fields(statm)
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(string(parts[1]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// growth is how much more a process holds after all the checks of a lane.
type growth struct {
	lane string
	usage
}

// grown compares the process with what it held when it was warm. It waits for
// descriptors that are being closed, and for a garbage collector to do so: large
// messages give it a reason.
func (s *subject) grown(ctx context.Context, lane string) (growth, bool) {
	if s.proc == nil || s.before.descriptors == 0 || s.proc.ended(0) {
		return growth{}, false
	}
	var now usage
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		now = s.proc.usage()
		if now.descriptors-s.before.descriptors <= spareDescriptors || time.Since(begin) > settleTime {
			break
		}
		_ = largeMessage(ctx, s)
	}
	return growth{lane, usage{now.descriptors - s.before.descriptors, now.rssBytes - s.before.rssBytes}}, true
}
