package nodefs

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A CPUShare is the weight of a cgroup among its siblings on a busy CPU.
type CPUShare struct {
	// File is the file that sets the weight. Shares is the weight in the units of cpu.shares of
	// version 1: a cgroup has 1024 by default, a container 1024 times its CPU request.
	File   string
	Shares int64
}

// OwnCPUShare returns the least share of this process's cgroup and its ancestors. It returns an
// error if that cannot be read, as inside a cgroup namespace.
func OwnCPUShare(f FS) (CPUShare, error) {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return CPUShare{}, fmt.Errorf("find own cgroup: %w", err)
	}
	return cpuShare(f, string(membership))
}

// cpuShare is OwnCPUShare for the content of /proc/PID/cgroup.
func cpuShare(f FS, membership string) (CPUShare, error) {
	least := CPUShare{}
	for _, own := range ownCgroups(membership, "cpu") {
		file := "cpu.shares"
		if own.unified {
			file = "cpu.weight"
		}
		name := f.Path(path.Join(own.dir, file))
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the controller is not used there
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return CPUShare{}, fmt.Errorf("%s: %q: want a number", name, text)
		}
		if own.unified {
			n = sharesOf(n)
		}
		if least.File == "" || n < least.Shares {
			least = CPUShare{File: name, Shares: n}
		}
	}
	if least.File == "" {
		return least, fmt.Errorf("no cgroup of this process with a share of the CPU is seen below %s", f.Path("/sys/fs/cgroup"))
	}
	return least, nil
}

// sharesOf converts a weight of version 2 to shares. The default weight 100 and above are
// proportional; below, it undoes the kubelet's conversion of a CPU request
// (cm/cgroup_manager_linux.go, cpuSharesToCPUWeight).
func sharesOf(weight int64) int64 {
	if weight >= 100 {
		return weight * 1024 / 100
	}
	return (weight-1)*262142/9999 + 2
}

// BootNanos reads CLOCK_BOOTTIME: nanoseconds since boot, including suspended time. All processes
// of the node share this clock, and it cannot be set. It returns 0 if there is no such clock.
func BootNanos() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // Linux has had the clock since 2.6.39
	}
	return ts.Nano()
}
