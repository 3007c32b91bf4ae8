package crossing

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/stack"
)

// memory reads memory.available from files that stay open.
type memory struct {
	total    int64
	v2       bool
	usage    *os.File // v1: memory.usage_in_bytes of the root; v2 has none, meminfo stands in
	stat     *os.File
	inactive []byte // the key of inactive file pages in stat
	buf      []byte
}

func openMemory() (*memory, error) {
	mount, v2, err := stack.MemoryCgroup()
	if err != nil {
		return nil, err
	}
	m := &memory{v2: v2, inactive: []byte("total_inactive_file"), buf: make([]byte, 16<<10)}
	usage := filepath.Join(mount, "memory.usage_in_bytes")
	if v2 {
		usage, m.inactive = "/proc/meminfo", []byte("inactive_file")
	}
	if m.usage, err = os.Open(usage); err != nil {
		return nil, err
	}
	if m.stat, err = os.Open(filepath.Join(mount, "memory.stat")); err != nil {
		return nil, err
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	total, err := valueOf(meminfo, []byte("MemTotal:"))
	m.total = total << 10
	return m, err
}

// available is the kubelet's figure: all memory less the working set, which is
// what is used less the file pages that the kernel would drop first.
func (m *memory) available() (int64, error) {
	raw, err := m.read(m.usage)
	if err != nil {
		return 0, err
	}
	var usage int64
	if m.v2 {
		free, err := valueOf(raw, []byte("MemFree:"))
		if err != nil {
			return 0, err
		}
		usage = m.total - free<<10
	} else if usage, err = strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64); err != nil {
		return 0, err
	}
	if raw, err = m.read(m.stat); err != nil {
		return 0, err
	}
	inactive, err := valueOf(raw, m.inactive)
	return m.total - max(0, usage-inactive), err
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

// valueOf finds the number after key at the start of a line.
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

// Available returns memory.available now, in bytes.
func Available() (int64, error) {
	m, err := openMemory()
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = m.usage.Close(), m.stat.Close() }() // only read
	return m.available()
}

// Now is CLOCK_MONOTONIC in nanoseconds, the clock of all stamps.
func Now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return t.Nano()
}
