package nodefs

import (
	"cmp"
	"errors"
	"fmt"
	"path"

	"github.com/evictd/evictd/shared/eviction"
)

// MemoryUse is the memory usage of a cgroup and all below it.
type MemoryUse struct {
	UsageBytes int64
	// InactiveFileBytes is page cache that the kernel drops first.
	InactiveFileBytes int64
}

// WorkingSetBytes is the part of the usage that cannot be reclaimed cheaply, as cAdvisor and so the
// kubelet define it. The two figures are read one after the other, so for a moment the cache may
// exceed the usage; the result is then zero.
func (m MemoryUse) WorkingSetBytes() int64 {
	return max(0, m.UsageBytes-m.InactiveFileBytes)
}

// WorkingSetOf is the working set, or an error if the figures cannot be a part of whole.
func (m MemoryUse) WorkingSetOf(whole eviction.Whole) (int64, error) {
	return m.WorkingSetBytes(), cmp.Or(whole.Check(m.UsageBytes), whole.Check(m.InactiveFileBytes))
}

// MemoryCgroup reads the memory use of one cgroup through descriptors that it
// keeps open. It may be used concurrently, with a Buffer for each caller.
type MemoryCgroup struct {
	version Version
	usage   *File // nil for the root of version 2
	stat    *File
}

// OpenMemory opens a cgroup's memory files. The error wraps ErrGone when there
// is no such cgroup.
func (h Hierarchy) OpenMemory(cgroup string) (*MemoryCgroup, error) {
	name := "memory.current"
	if h.Version == V1 {
		name = "memory.usage_in_bytes"
	}
	c := &MemoryCgroup{version: h.Version}
	var err error
	if c.usage, err = h.open(cgroup, name); err != nil {
		// The real root of version 2 has no memory.current; inside a cgroup
		// namespace "/" is an ordinary cgroup and has one.
		if h.Version != V2 || path.Join("/", cgroup) != "/" || !errors.Is(err, ErrGone) {
			return nil, err
		}
		c.usage = nil
	}
	if c.stat, err = h.open(cgroup, "memory.stat"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Read reads the figures now. The error wraps ErrGone when the cgroup has been
// removed.
func (c *MemoryCgroup) Read(b *Buffer) (MemoryUse, error) {
	var use MemoryUse
	var err error
	if use.UsageBytes, err = readParsed(c.usage, b, parseAmount); err != nil {
		return MemoryUse{}, err
	}
	content, err := c.stat.Read(b)
	if err != nil {
		return MemoryUse{}, err
	}
	key := keyInactiveFile
	if c.version == V1 {
		key = keyTotalInactiveFile // the other counts the cgroup without its children
	}
	if use.InactiveFileBytes, err = parseStat(content, key); err != nil {
		return MemoryUse{}, fmt.Errorf("parse %s: %w", c.stat.Path(), err)
	}
	if c.usage == nil {
		if use.UsageBytes, err = parseRootUsage(content); err != nil {
			return MemoryUse{}, fmt.Errorf("parse %s: %w", c.stat.Path(), err)
		}
	}
	return use, nil
}

// Alive reports whether the cgroup still exists; it costs a microsecond where a
// Read costs ten.
func (c *MemoryCgroup) Alive(b *Buffer) bool {
	_, err := cmp.Or(c.usage, c.stat).Read(b)
	return !errors.Is(err, ErrGone)
}

// Close closes the descriptors.
func (c *MemoryCgroup) Close() {
	c.usage.Close()
	c.stat.Close()
}

// parseRootUsage computes the usage of version 2's root from its memory.stat:
// what memory.usage_in_bytes of version 1 counts there (opencontainers/cgroups
// v0.0.6, fs2/memory.go:rootStatsFromMeminfo, which the kubelet v1.36 reads).
func parseRootUsage(stat []byte) (int64, error) {
	anon, err := parseStat(stat, keyAnon)
	if err != nil {
		return 0, err
	}
	file, err := parseStat(stat, keyFile)
	if err != nil {
		return 0, err
	}
	if sum := anon + file; sum >= 0 {
		return sum, nil
	}
	return 0, fmt.Errorf("anon %d and file %d together are too large", anon, file)
}

// readParsed returns 0 for a file that is nil.
func readParsed(f *File, b *Buffer, parse func([]byte) (int64, error)) (int64, error) {
	if f == nil {
		return 0, nil
	}
	content, err := f.Read(b)
	if err != nil {
		return 0, err
	}
	v, err := parse(content)
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", f.Path(), err)
	}
	return v, nil
}
