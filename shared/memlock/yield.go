package memlock

import (
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// commandBytes bounds the memory of a command that only reads.
const commandBytes = 256 << 20

// Yield has the kernel end this process before others in the same cgroup, such as the daemon in whose pod a command
// runs, and bounds its memory in bytes. Where the kernel does not allow it the process goes on without.
func Yield() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: commandBytes, Max: commandBytes})
	debug.SetMemoryLimit(commandBytes / 2)
	debug.SetGCPercent(50) // the limit is of address space, which the heap does not give back
}
