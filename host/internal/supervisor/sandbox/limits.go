package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cpuPeriodMicros is the kernel's usual period.
const cpuPeriodMicros = 100_000

// A limit is one file of a cgroup and what is written to it.
type limit struct {
	controller string
	v1, v2     string // file names, "" if there is none
	value      func(v2 bool) string
	// optional files depend on how the kernel was built.
	optional bool
}

// limitsOf returns what limits a cgroup to t, in the order in which the kernel
// takes it.
func limitsOf(t Policy) []limit {
	number := func(n int64) func(bool) string { return func(bool) string { return strconv.FormatInt(n, 10) } }
	var all []limit
	if t.memoryBytes > 0 {
		all = append(all,
			limit{controller: "memory", v1: "memory.limit_in_bytes", v2: "memory.max", value: number(t.memoryBytes)},
			// No swap on top of it: what is swapped out is slow when it is needed.
			limit{controller: "memory", v1: "memory.memsw.limit_in_bytes", value: number(t.memoryBytes), optional: true},
			limit{controller: "memory", v2: "memory.swap.max", value: number(0), optional: true})
	}
	if t.milliCPU > 0 {
		quota := strconv.FormatInt(t.milliCPU*cpuPeriodMicros/1000, 10)
		period := strconv.Itoa(cpuPeriodMicros)
		all = append(all,
			limit{controller: "cpu", v1: "cpu.cfs_period_us", value: number(cpuPeriodMicros)},
			limit{controller: "cpu", v1: "cpu.cfs_quota_us", v2: "cpu.max", value: func(v2 bool) string {
				if v2 {
					return quota + " " + period
				}
				return quota
			}})
	}
	if t.tasks > 0 {
		all = append(all, limit{controller: "pids", v1: "pids.max", v2: "pids.max", value: number(t.tasks)})
	}
	return all
}

// limit writes those limits that the hierarchy has the controllers for.
func (d cgroupDir) limit(t hierarchy, limits []limit) error {
	var errs []error
	for _, s := range limits {
		file := s.v2
		if !t.v2() {
			file = s.v1
			if !slices.Contains(t.mount.controllers, s.controller) {
				continue
			}
		}
		if file == "" {
			continue
		}
		err := d.write(file, s.value(t.v2()))
		if errors.Is(err, fs.ErrNotExist) && (s.optional || t.v2()) {
			continue // In version 2 that the controller is missing was told by enable.
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("limit plugins: %w", err))
		}
	}
	return errors.Join(errs...)
}

// mkdir makes a cgroup for a plugin.
func (t *hierarchy) mkdir(leaf string) (cgroupDir, error) {
	dir := filepath.Join(t.base, leaf)
	var err error
	for range 2 { // Another host may have found the directory empty and removed it.
		if err = os.Mkdir(t.base, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
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

// hostLeaf is the name of a cgroup that holds the host alone.
const hostLeaf = "host"

// enable has the controllers of limits in force below base, which version 2 wants
// to be told, and refuses while there are processes beside base. Some controllers
// it would not refuse, but make of them a kind of cgroup that no process can enter;
// so they are not tried.
func (t *hierarchy) enable(limits []limit) error {
	if !t.v2() || len(limits) == 0 {
		return nil
	}
	parent := filepath.Dir(t.base)
	if populated(parent) {
		return fmt.Errorf("cgroup %s has processes of its own and cannot limit others: want evictd in a delegated cgroup named %q below it (systemd: Delegate=yes and DelegateSubgroup=%s)",
			parent, hostLeaf, hostLeaf)
	}
	var (
		missing []string
		errs    []error
	)
	for _, controller := range limiters {
		if !slices.ContainsFunc(limits, func(s limit) bool { return s.controller == controller }) {
			continue
		}
		for _, dir := range []string{parent, t.base} {
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

// usable reports why no process can be born in a cgroup, or all be killed by it.
func (t *hierarchy) usable(dir cgroupDir) error {
	if !t.v2() {
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

// populated reports whether a cgroup of version 2 has processes and is not the
// root, which may have both them and limits for others.
func populated(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err != nil {
		return false
	}
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return err != nil || len(procs) > 0
}
