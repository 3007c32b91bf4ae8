package nodefs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

var keyNSpid = []byte("\nNSpid:")

// parseTasks returns the number of all tasks in /proc/loadavg, whose fourth
// field is "runnable/all".
func parseTasks(b []byte) (int64, error) {
	rest := b
	for range 3 {
		_, after, ok := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
		if !ok {
			return 0, fmt.Errorf("%.80q has less than four fields", b)
		}
		rest = after
	}
	runnable, rest, err := leadingUint(bytes.TrimLeft(rest, " "))
	if err != nil {
		return 0, fmt.Errorf("fourth field: %w", err)
	}
	if len(rest) == 0 || rest[0] != '/' {
		return 0, fmt.Errorf("fourth field of %.80q, want runnable/all", b)
	}
	all, rest, err := leadingUint(rest[1:])
	switch {
	case err != nil:
		return 0, fmt.Errorf("fourth field: %w", err)
	case len(rest) > 0 && rest[0] != ' ' && rest[0] != '\n':
		return 0, fmt.Errorf("fourth field of %.80q, want runnable/all", b)
	case all > math.MaxInt64:
		return 0, fmt.Errorf("%d tasks, %d of them runnable, are too many", all, runnable)
	}
	return int64(all), nil
}

// parseNSpid returns the number of pid namespaces of a process, from the one whose /proc is read
// down to its own: 1 if these are the same. 0 means that the kernel has no pid namespaces or is
// older than Linux 4.1.
func parseNSpid(status []byte) (int, error) {
	at, ok := afterKey(status, keyNSpid)
	if !ok {
		return 0, nil
	}
	line, _, _ := bytes.Cut(at, []byte("\n"))
	n := 0
	for field := range bytes.FieldsSeq(line) {
		if _, rest, err := leadingUint(field); err != nil || len(rest) > 0 {
			return 0, fmt.Errorf("NSpid: %.40q is not a pid", field)
		}
		n++
	}
	if n == 0 {
		return 0, errors.New("NSpid: no pid")
	}
	return n, nil
}

// parsePIDs returns the PIDs in a cgroup.procs, one per line. It omits 0, which stands for a
// process in another pid namespace.
func parsePIDs(b []byte) ([]int, error) {
	var pids []int
	for line := range bytes.FieldsSeq(b) {
		pid, rest, err := leadingUint(line)
		if err != nil || len(rest) > 0 || pid > math.MaxInt32 {
			return nil, fmt.Errorf("%.40q is not a process id", line)
		}
		if pid > 0 {
			pids = append(pids, int(pid))
		}
	}
	return pids, nil
}
