package crossing

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/stack"
)

// Node is the cgroup of all processes: the memory available to it is memory.available.
const Node = "/"

// Machine is no cgroup: the memory available is MemAvailable of the machine.
const Machine = "MemAvailable"

// Pods returns the cgroup of all pods of a stack, whose memory must be limited with LimitPods:
// the memory available to it is allocatableMemory.available.
func Pods(s *stack.Stack) string { return filepath.Join(s.CgroupRoot, "kubepods") }

// memory reads the memory available to a cgroup from files that stay open.
type memory struct {
	capacity int64
	// usage contains the bytes used. It is nil for the root of cgroup v2, which has no such file:
	// there they are anon and file of stat.
	usage, stat *os.File
	machine     bool   // the figure is MemAvailable, of /proc/meminfo
	inactive    []byte // the key of inactive file pages in stat
	buf         []byte
}

// memoryFiles are the names of a hierarchy's files, and the key of inactive file pages in stat.
type memoryFiles struct{ usage, limit, inactive string }

func openMemory(group string) (*memory, error) {
	if group == Machine {
		usage, err := os.Open("/proc/meminfo")
		return &memory{usage: usage, machine: true, buf: make([]byte, 16<<10)}, err
	}
	mount, v2, err := stack.MemoryCgroup()
	if err != nil {
		return nil, err
	}
	names := memoryFiles{"memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"}
	if v2 {
		names = memoryFiles{"memory.current", "memory.max", "inactive_file"}
	}
	m := &memory{inactive: []byte(names.inactive), buf: make([]byte, 16<<10)}
	dir := filepath.Join(mount, group)
	if !v2 || group != Node {
		if m.usage, err = os.Open(filepath.Join(dir, names.usage)); err != nil {
			return nil, err
		}
	}
	if m.stat, err = os.Open(filepath.Join(dir, "memory.stat")); err != nil {
		return nil, err
	}
	if group == Node {
		m.capacity, err = machineBytes()
	} else {
		m.capacity, err = readBytes(filepath.Join(dir, names.limit))
	}
	return m, err
}

func machineBytes() (int64, error) {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	total, err := valueOf(raw, []byte("MemTotal:"))
	return total << 10, err
}

func readBytes(file string) (int64, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
}

// available computes the kubelet's figure: all memory minus the working set, which is the usage
// minus the file pages that the kernel drops first.
func (m *memory) available() (int64, error) {
	if m.machine {
		raw, err := m.read(m.usage)
		if err != nil {
			return 0, err
		}
		kib, err := valueOf(raw, []byte("MemAvailable:"))
		return kib << 10, err
	}
	var usage int64
	if m.usage != nil {
		raw, err := m.read(m.usage)
		if err != nil {
			return 0, err
		}
		if usage, err = strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64); err != nil {
			return 0, err
		}
	}
	raw, err := m.read(m.stat)
	if err != nil {
		return 0, err
	}
	if m.usage == nil {
		anon, errAnon := valueOf(raw, []byte("anon"))
		file, errFile := valueOf(raw, []byte("file"))
		if usage, err = anon+file, errors.Join(errAnon, errFile); err != nil {
			return 0, err
		}
	}
	inactive, err := valueOf(raw, m.inactive)
	return m.capacity - max(0, usage-inactive), err
}

func (m *memory) read(f *os.File) ([]byte, error) {
	n, err := unix.Pread(int(f.Fd()), m.buf, 0)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if n == len(m.buf) {
		return nil, fmt.Errorf("read %s: longer than %d bytes", f.Name(), n)
	}
	return m.buf[:n], nil
}

// valueOf returns the number after key at the start of a line.
func valueOf(text, key []byte) (int64, error) {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		if after, ok := bytes.CutPrefix(line, key); ok && len(after) > 0 && after[0] == ' ' {
			digits, _, _ := bytes.Cut(bytes.TrimLeft(after, " "), []byte(" "))
			return strconv.ParseInt(string(digits), 10, 64)
		}
		text = rest
	}
	return 0, errors.New("no line starts with " + string(key))
}

// Available returns the current memory.available, in bytes.
func Available() (int64, error) {
	m, err := openMemory(Node)
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = m.usage.Close(), m.stat.Close() }() // only read, or not there
	return m.available()
}

// Now returns CLOCK_MONOTONIC in nanoseconds, the clock of all stamps.
func Now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return t.Nano()
}
