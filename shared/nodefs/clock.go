package nodefs

import "golang.org/x/sys/unix"

// BootNanos reads CLOCK_BOOTTIME: nanoseconds since boot, including suspended time. All processes
// of the node share this clock, and it cannot be set. It returns 0 if there is no such clock.
func BootNanos() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // Linux has had the clock since 2.6.39
	}
	return ts.Nano()
}
