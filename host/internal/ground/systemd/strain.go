package systemd

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
)

// A strain holds counters of what a shortage of memory costs: page faults of this process that read
// from a disk, and the time in which tasks of the node waited for memory.
type strain struct {
	faults int64
	waited time.Duration
}

// waits are the node's counters, the best first: the number behind before, each for so much time. A
// kernel without PSI counts pages that tasks scan to free some, ten thousands a second in a thrash.
var waits = [...]struct {
	path, before string
	each         time.Duration
}{{"/proc/pressure/memory", " total=", time.Microsecond}, {"/proc/vmstat", "\npgscan_direct ", 100 * time.Microsecond}}

// openStrain returns a function that reads the counters. It opens the node's once: on a thrashing
// node a path may have to be read from the disk.
func openStrain(fs nodefs.FS) (read func() strain) {
	var file *nodefs.File // nil if /proc has none: ProcSubset=pid in the unit
	var b nodefs.Buffer
	w := waits[0]
	for i := 0; file == nil && i < len(waits); i++ {
		w = waits[i]
		file, _ = fs.Open(w.path)
	}
	return func() (s strain) {
		var usage unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // fails for a bad address alone
		s.faults = int64(usage.Majflt)               //nolint:unconvert // int32 on 386
		if file != nil {
			text, _ := file.Read(&b)
			_, text, _ = bytes.Cut(text, []byte(w.before))
			text, _, _ = bytes.Cut(text, []byte("\n"))
			n, _ := strconv.ParseInt(string(text), 10, 64)
			s.waited = time.Duration(n) * w.each
		}
		return s
	}
}
