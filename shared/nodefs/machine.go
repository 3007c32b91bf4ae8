package nodefs

import (
	"cmp"
	"fmt"

	"github.com/evictd/evictd/shared/eviction"
)

// Machine is the machine's memory by /proc/meminfo.
type Machine struct {
	TotalBytes int64
	// HugePagesBytes is the size of the pools of huge pages, 0 unless they are excluded.
	HugePagesBytes int64

	availableBytes int64
	hasAvailable   bool
}

// Whole returns the memory that a cgroup has a part of.
func (m Machine) Whole() eviction.Whole {
	return eviction.Whole{Name: "the machine's memory", Size: m.TotalBytes}
}

type meminfo struct {
	file  *File
	rules MemoryRules
}

func (f *meminfo) read(b *Buffer) (m Machine, err error) {
	content, err := f.file.Read(b)
	if err != nil {
		return m, err
	}
	m.TotalBytes, err = parseMemTotal(content)
	if err == nil && f.rules.MemAvailable {
		m.availableBytes, m.hasAvailable, err = parseMeminfo(content, keyMemAvailable)
		m.hasAvailable = m.hasAvailable && m.Whole().Check(m.availableBytes) == nil
	}
	if err == nil && f.rules.ExcludeHugePages { // the sum of all sizes, as in /sys/kernel/mm/hugepages
		m.HugePagesBytes, _, err = parseMeminfo(content, keyHugetlb)
		err = cmp.Or(err, m.Whole().Check(m.HugePagesBytes))
	}
	if err != nil {
		return Machine{}, fmt.Errorf("parse %s: %w", f.file.Path(), err)
	}
	return m, nil
}

func parseMemTotal(b []byte) (total int64, err error) {
	if total, _, err = parseMeminfo(b, keyMemTotal); err == nil && total == 0 {
		err = missing(keyMemTotal)
	}
	return total, err
}

func (f *meminfo) close() { f.file.Close() }
