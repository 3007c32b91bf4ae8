package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/shared/nodefs"
)

// A hierarchy is a mounted cgroup hierarchy.
type hierarchy struct {
	// root is the cgroup that is mounted at point.
	root, point string
	// controllers are the limiters of a hierarchy of version 1; empty for version 2.
	controllers []string
	// base is the directory that holds the cgroups of the host's plugins.
	base string
}

func (h hierarchy) v2() bool { return len(h.controllers) == 0 }

// first returns the controller that names the hierarchy in /proc/PID/cgroup, "" in version 2.
func (h hierarchy) first() string {
	if h.v2() {
		return ""
	}
	return h.controllers[0]
}

// has reports whether the hierarchy may have a controller; for version 2 only enable finds out.
func (h hierarchy) has(controller string) bool {
	return h.v2() || slices.Contains(h.controllers, controller)
}

// parseMounts returns the cgroup hierarchies in a mountinfo file, those of version 1 only if
// they have one of the limiters.
func parseMounts(mountinfo string) []hierarchy {
	var all []hierarchy
	for line := range strings.Lines(mountinfo) {
		m, ok := nodefs.ParseMount(line)
		if !ok {
			continue
		}
		h := hierarchy{root: m.Root, point: m.Point}
		if m.Kind == "cgroup" {
			options := strings.Split(m.Options, ",")
			h.controllers = slices.DeleteFunc(options, func(option string) bool { return !slices.Contains(limiters, option) })
		}
		if m.Kind == "cgroup2" || len(h.controllers) > 0 {
			all = append(all, h)
		}
	}
	return all
}

// parseMembership returns the cgroup for each controller from a /proc/PID/cgroup file
// (cgroups(7)); that of version 2 has the key "".
func parseMembership(content string) map[string]string {
	in := map[string]string{}
	for line := range strings.Lines(content) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			in[controller] = parts[2]
		}
	}
	return in
}

// dir returns the directory of a cgroup, which is given as in /proc/PID/cgroup.
func (h hierarchy) dir(cgroup string) (string, error) {
	rest := cgroup
	if h.root != "/" {
		var below bool
		rest, below = strings.CutPrefix(cgroup, h.root)
		if !below || rest != "" && rest[0] != '/' {
			return "", fmt.Errorf("cgroup %s is not below %s, which is what is mounted at %s", cgroup, h.root, h.point)
		}
	}
	if strings.HasPrefix(rest, "/..") { // outside of the cgroup namespace
		return "", fmt.Errorf("cgroup %s is outside of what is mounted at %s", cgroup, h.point)
	}
	return path.Join(h.point, rest), nil
}

// mkdir makes a cgroup for a plugin below base.
func (h hierarchy) mkdir(leaf string) (cgroupDir, error) {
	dir := filepath.Join(h.base, leaf)
	var err error
	for range 2 { // Another host may have found the directory empty and removed it.
		if err = os.Mkdir(h.base, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			break
		}
		if err = os.Mkdir(dir, 0o755); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("make cgroup: %w", err)
	}
	return cgroupDir(dir), nil
}

// memoryBound returns the lowest memory limit of the cgroups that base is in, in bytes, as far as they are mounted.
func (h hierarchy) memoryBound() int64 {
	lowest, file := int64(math.MaxInt64), "memory.limit_in_bytes"
	if h.v2() {
		file = "memory.max"
	}
	for dir := filepath.Dir(h.base); strings.HasPrefix(dir, h.point); dir = filepath.Dir(dir) {
		raw, _ := os.ReadFile(filepath.Join(dir, file))
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil {
			lowest = min(lowest, limit)
		}
	}
	return lowest
}

// enable enables controllers for the cgroups below base, as version 2 requires. The kernel refuses
// that while the parent of base has processes. For some controllers it would not refuse, but turn
// the cgroup into a type that no process can enter, so enable checks that first.
func (h hierarchy) enable(controllers []string) error {
	if !h.v2() {
		return nil
	}
	parent := filepath.Dir(h.base)
	if populated(parent) {
		return fmt.Errorf("cgroup %s has processes of its own and cannot limit others: want evictd in a delegated cgroup named %q below it (systemd: Delegate=yes and DelegateSubgroup=%s)",
			parent, hostLeaf, hostLeaf)
	}
	var (
		missing []string
		errs    []error
	)
	for _, controller := range controllers {
		for _, dir := range []string{parent, h.base} {
			if err := cgroupDir(dir).write("cgroup.subtree_control", "+"+controller); err != nil {
				missing = append(missing, controller)
				errs = append(errs, err)
				break
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("cgroup %s does not have the controllers %s: %w", parent, strings.Join(missing, ", "), errors.Join(errs...))
	}
	return nil
}

// usable returns an error if processes cannot start in a cgroup or cannot all be killed with it.
func (h hierarchy) usable(dir cgroupDir) error {
	if !h.v2() {
		return nil
	}
	if _, err := os.Stat(filepath.Join(string(dir), "cgroup.kill")); err != nil {
		return fmt.Errorf("cgroups of plugins want Linux 5.14: %w", err)
	}
	kind, err := os.ReadFile(filepath.Join(string(dir), "cgroup.type"))
	if is := strings.TrimSpace(string(kind)); err == nil && is != "domain" {
		err = fmt.Errorf("cgroup %s is of type %q, want \"domain\"", dir, is)
	}
	return err
}

// populated reports whether a cgroup of version 2 has processes. It is false for the root, which
// may have both processes and child cgroups with limits.
func populated(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err != nil {
		return false
	}
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return err != nil || len(procs) > 0
}

// limit sets the limits of p for which the hierarchy has controllers.
func (h hierarchy) limit(dir cgroupDir, p Policy) error {
	var errs []error
	for _, l := range limitsOf(p, h.v2()) {
		if !p.limits(l.controller) || !h.has(l.controller) {
			continue
		}
		err := dir.write(l.file, l.value)
		if errors.Is(err, fs.ErrNotExist) && (l.optional || h.v2()) {
			continue // In version 2 enable has reported that the controller is missing.
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("limit plugins: %w", err))
		}
	}
	return errors.Join(errs...)
}

// cpuPeriodMicros is the kernel's usual period.
const cpuPeriodMicros = 100_000

// A limit is a file of a cgroup and the value to write to it.
type limit struct {
	controller, file, value string
	// optional: the file may be missing, depending on the kernel's configuration.
	optional bool
}

// limitsOf returns the limits for p in the order in which the kernel accepts them. It allows no
// swap on top of the memory: what is swapped out would be slow when it is needed.
func limitsOf(p Policy, v2 bool) []limit {
	memory, quota, period := strconv.FormatInt(p.MemoryBytes, 10), strconv.FormatInt(p.MilliCPU*cpuPeriodMicros/1000, 10), strconv.Itoa(cpuPeriodMicros)
	if v2 {
		return []limit{
			{"memory", "memory.max", memory, false},
			{"memory", "memory.swap.max", "0", true},
			{"cpu", "cpu.max", quota + " " + period, false},
			{"pids", "pids.max", strconv.Itoa(usualTasks), false},
		}
	}
	return []limit{
		{"memory", "memory.limit_in_bytes", memory, false},
		{"memory", "memory.memsw.limit_in_bytes", memory, true},
		{"cpu", "cpu.cfs_period_us", period, false},
		{"cpu", "cpu.cfs_quota_us", quota, false},
		{"pids", "pids.max", strconv.Itoa(usualTasks), false},
	}
}
