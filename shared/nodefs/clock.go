package nodefs

import "golang.org/x/sys/unix"

// BootNanos reads CLOCK_BOOTTIME: nanoseconds since boot, suspended time
// included. It is one clock for all processes of the node, which no one can set.
// It is 0 when there is no such clock.
func BootNanos() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // Linux has had the clock since 2.6.39
	}
	return ts.Nano()
}
