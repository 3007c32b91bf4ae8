package nodefs

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// A CPUShare is the weight of a cgroup among its siblings on a busy CPU.
type CPUShare struct {
	// File is where it is set, Shares what it is as in cpu.shares of version 1, where a
	// cgroup has 1024 by default, and a container what it requests of
	// CPU times 1024.
	File   string
	Shares int64
}

// OwnCPUShare is the least of this process's cgroup and those above it. It is an error
// where that cannot be seen, as from a cgroup namespace.
func OwnCPUShare(f FS) (CPUShare, error) {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return CPUShare{}, fmt.Errorf("find own cgroup: %w", err)
	}
	return cpuShare(f, string(membership))
}

// cpuShare is by what /proc/PID/cgroup has.
func cpuShare(f FS, membership string) (CPUShare, error) {
	least := CPUShare{}
	for line := range strings.Lines(membership) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, cgroup, _ := strings.Cut(rest, ":")
		dir, file := "/sys/fs/cgroup", "cpu.weight"
		switch {
		case strings.Contains(","+controllers+",", ",cpu,"):
			dir, file = path.Join(dir, "cpu"), "cpu.shares"
		case controllers != "":
			continue
		}
		for at := path.Clean("/" + cgroup); at != "/"; at = path.Dir(at) {
			name := f.Path(path.Join(dir, at, file))
			text, err := os.ReadFile(name)
			if err != nil {
				continue // the controller is not used there
			}
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err != nil {
				return CPUShare{}, fmt.Errorf("%s: %q: want a number", name, text)
			}
			if file == "cpu.weight" {
				n = sharesOf(n)
			}
			if least.File == "" || n < least.Shares {
				least = CPUShare{File: name, Shares: n}
			}
		}
	}
	if least.File == "" {
		return least, fmt.Errorf("no cgroup of this process with a share of the CPU is seen below %s", f.Path("/sys/fs/cgroup"))
	}
	return least, nil
}

// sharesOf is a weight of version 2 as shares. 100 is what a cgroup has unless somebody says
// otherwise; below, what the kubelet makes of a request (cm/cgroup_manager_linux.go,
// cpuSharesToCPUWeight) is undone.
func sharesOf(weight int64) int64 {
	if weight >= 100 {
		return weight * 1024 / 100
	}
	return (weight-1)*262142/9999 + 2
}
