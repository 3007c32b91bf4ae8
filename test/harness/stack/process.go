package stack

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Process identifies a process uniquely: PIDs are reused, but not together with their start time.
type Process struct {
	PID int `json:"pid"`
	// StartTicks is field 22 of /proc/PID/stat.
	StartTicks uint64 `json:"startTicks"`
}

// self identifies the running process.
func self() (Process, error) { return identify(os.Getpid()) }

func identify(pid int) (Process, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	ticks, err := parseStartTicks(raw)
	if err != nil {
		return Process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return Process{PID: pid, StartTicks: ticks}, nil
}

// parseStartTicks counts fields from the last ")": the command name before it may contain spaces
// and parentheses.
func parseStartTicks(stat []byte) (uint64, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("stat has %d fields after the command name, want at least 20", len(fields))
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

// Alive reports whether this same process is still running.
func (p Process) Alive() bool {
	now, err := identify(p.PID)
	return err == nil && now == p
}
