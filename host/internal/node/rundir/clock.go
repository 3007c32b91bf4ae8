package rundir

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A moment is one instant on the clocks that the journal needs. Boot time continues while the
// machine is suspended and never jumps, so ages are computed from it; it is valid within one boot
// only.
type moment struct {
	wall      time.Time
	bootNanos int64
	bootID    string
}

// systemNow returns the present moment.
func systemNow() (moment, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id") //nolint:forbidigo // the kernel's
	if err != nil {
		return moment{}, fmt.Errorf("boot id: %w", err)
	}
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return moment{}, fmt.Errorf("boot time: %w", err)
	}
	return moment{wall: time.Now(), bootNanos: boot.Nano(), bootID: strings.TrimSpace(string(id))}, nil
}

// stamp is a moment as stored in a file.
type stamp struct {
	Wall      time.Time `json:"wall"`
	BootNanos int64     `json:"bootNanos"`
}

// at returns the stamp of t, which is near m. The difference is taken on the monotonic clock if t
// has a reading of it.
func (m moment) at(t time.Time) stamp {
	return stamp{Wall: t.Round(0), BootNanos: m.bootNanos - int64(m.wall.Sub(t))}
}

// since returns the time from the stamp to m, never negative and never longer than the boot.
func (m moment) since(s stamp) time.Duration {
	return time.Duration(m.bootNanos - min(max(s.BootNanos, 0), m.bootNanos))
}
