// Package memlock keeps the pages of this process in memory: on a thrashing node its text would be paged
// out, and a call would take 20 times as long, or wait seconds for a disk that is busy with the pages of
// others.
package memlock

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// All locks the pages that the process has touched, and each other one once it touches it. MCL_ONFAULT
// limits the cost to those, instead of the whole address space. Of the program it reads and locks all,
// up to mostProgram: code that has never run, such as that of a kill, does not wait for the disk either.
// The error says what is not locked. Under a limit All locks nothing: a later growth of the heap would
// fail.
func All() error {
	if err := Refused(); err != nil {
		return err
	}
	return errors.Join(unix.Mlockall(unix.MCL_CURRENT|unix.MCL_FUTURE|unix.MCL_ONFAULT), lockProgram())
}

// mostProgram bounds in bytes what is locked of a program's code, and of its constants: a vendor's plugin
// has 256 MiB at most, with all others.
const mostProgram = 48 << 20

func lockProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps") //nolint:forbidigo // the kernel's
	if err != nil {
		return err
	}
	locked := 0
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil {
			return fmt.Errorf("/proc/self/maps: %q: %w", line, err)
		}
		if !strings.HasSuffix(line, " "+program+"\n") || strings.Contains(mode, "w") {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MLOCK, from, min(to-from, mostProgram), 0); errno != 0 {
			return fmt.Errorf("lock %s at %x: %w", program, from, errno)
		}
		locked++
	}
	if locked == 0 {
		return fmt.Errorf("/proc/self/maps: no mapping of %s", program)
	}
	return nil
}

// Refused returns why the process may not lock its memory, nil if it may.
func Refused() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return err
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // Version 3 has two words of capabilities.
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	if data[0].Effective&(1<<unix.CAP_IPC_LOCK) == 0 {
		return fmt.Errorf("RLIMIT_MEMLOCK is %d bytes, want no limit (LimitMEMLOCK=infinity), or the capability IPC_LOCK", limit.Cur)
	}
	return nil
}

const (
	// startTime is longer than a start on a node that does not thrash.
	startTime = 3 * time.Second
	// sparePercent is the percentage for spareTime from Spare on.
	sparePercent = 400
	spareTime    = 10 * time.Second
)

// heap is the state of Settle and Spare.
var heap struct {
	sync.Mutex

	later   int // 0 before Settle
	sparing bool
}

// Settle sets the percentages by which the heap may grow between collections, while the program starts and
// later. In between it gives back what only the start has used.
func Settle(start, later int) {
	debug.SetGCPercent(start)
	time.AfterFunc(startTime, func() {
		heap.Lock()
		defer heap.Unlock()
		heap.later = later
		debug.SetGCPercent(later)
		debug.FreeOSMemory()
	})
}

// Spare lets the heap grow for some seconds as it is not to at rest: what is urgent contains no collection. It
// may wait for one that is under way. Before Settle has ended it does nothing.
func Spare() {
	heap.Lock()
	defer heap.Unlock()
	if heap.later == 0 || heap.sparing {
		return
	}
	heap.sparing = true
	debug.SetGCPercent(sparePercent)
	time.AfterFunc(spareTime, func() {
		heap.Lock()
		defer heap.Unlock()
		heap.sparing = false
		debug.SetGCPercent(heap.later)
	})
}
