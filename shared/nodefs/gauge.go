package nodefs

import (
	"errors"
	"fmt"
	"sync"
)

// MemorySample is a memory figure with everything that it was computed from.
type MemorySample struct {
	MemoryUse
	// Limited is false if there is no limit: then the available amount is not known and the
	// fields below are zero.
	Limited    bool
	LimitBytes int64
	// HugePagesBytes is the size of the pools of huge pages, 0 unless they are excluded.
	HugePagesBytes int64
	// CapacityBytes is the limit, without the pools of huge pages. The kubelet adds the available
	// amount and the working set, with the same result.
	CapacityBytes int64
	// AvailableBytes is the capacity minus the working set, MemAvailableBytes, or the lower of both, by MemoryRules. The
	// kubelet computes its figure unsigned and casts, so it is negative while the usage exceeds the
	// limit; here it is then zero.
	AvailableBytes int64
	// MemAvailableBytes is MemAvailable from /proc/meminfo, 0 unless HasMemAvailable.
	MemAvailableBytes int64
	HasMemAvailable   bool
	// LimitOf is the cgroup with the limit if that is an ancestor or "/".
	LimitOf string
	// ImpossibleBytes is not 0 if the node's use cannot be: then MemAvailableBytes alone is available.
	ImpossibleBytes int64
}

// A MemoryGauge reads how much memory is available to a cgroup.
type MemoryGauge = Gauge[MemorySample]

// A Gauge reads a figure of the node. It keeps its files open, and reopens them if their cgroup was
// removed and created again. It may be used concurrently, with a Buffer for each caller.
type Gauge[T any] struct {
	open func() (gaugeFiles[T], error)

	mu    sync.Mutex
	files gaugeFiles[T] // nil until the first read and while the cgroup is gone
}

type gaugeFiles[T any] interface {
	read(b *Buffer) (T, error)
	close()
}

// memoryFiles are the open files of a MemoryGauge.
type memoryFiles struct {
	machine *Gauge[Machine]
	node    bool // the machine's memory is a limit
	figure  string
	limits  limits[MemoryUse]
}

// The values of MemoryRules.Figure; with any other available is the lower of both.
const (
	// KubeletMemory is the capacity less the working set.
	KubeletMemory = "kubelet"
	// MemAvailable is the kernel's.
	MemAvailable = "memAvailable"
)

// MemoryRules determine how much of the node's memory counts as available. The kubelet takes all
// memory that belongs to no cgroup as available: pools of huge pages (until v1.36), the cache of ZFS
// and much of the kernel's own.
type MemoryRules struct {
	// MemAvailable: the kernel's MemAvailable is read, and available is what Figure says.
	MemAvailable bool
	Figure       string
	// ExcludeHugePages: the pools of huge pages, in use or not, are neither available nor part of the
	// capacity, as in the kubelet since v1.37 (pkg/kubelet/server/stats/summary.go:adjustForHugePages).
	ExcludeHugePages bool
}

// MachineMemory returns the gauge of the machine's memory.
func (f FS) MachineMemory(rules MemoryRules) *Gauge[Machine] {
	return &Gauge[Machine]{open: func() (gaugeFiles[Machine], error) {
		file, err := f.Open("/proc/meminfo")
		return &meminfo{file, rules}, err
	}}
}

// NodeMemory returns the gauge of the whole node: the root cgroup's usage against the machine's
// memory, which cAdvisor reports as the root's limit. On a node that is a container, "/" may have
// a closer limit.
func (h Hierarchy) NodeMemory(rules MemoryRules) *MemoryGauge {
	machine := h.FS.MachineMemory(rules)
	return &MemoryGauge{open: func() (gaugeFiles[MemorySample], error) {
		all, err := h.memoryLimits("/")
		if errors.Is(err, ErrGone) {
			var use *MemoryCgroup
			use, err = h.OpenMemory("/")
			all = limits[MemoryUse]{{cgroup: "/", use: use}}
		}
		return &memoryFiles{machine: machine, node: true, figure: rules.Figure, limits: all}, err
	}}
}

// CgroupMemory returns the gauge of one cgroup: its usage against its own limit, or that of the
// ancestor that has less left. A read returns an error that wraps ErrGone while the cgroup does
// not exist.
func (h Hierarchy) CgroupMemory(cgroup string) *MemoryGauge {
	machine := h.FS.MachineMemory(MemoryRules{})
	return &MemoryGauge{open: func() (gaugeFiles[MemorySample], error) {
		all, err := h.memoryLimits(cgroup)
		return &memoryFiles{machine: machine, limits: all}, err
	}}
}

func (h Hierarchy) memoryLimits(cgroup string) (limits[MemoryUse], error) {
	file := "memory.max"
	if h.Version == V1 {
		file = "memory.limit_in_bytes"
	}
	return openLimits(h, cgroup, file, func(at string) (podCgroup[MemoryUse], error) { return h.OpenMemory(at) })
}

// ReadNodeMemory reads the node's memory once, keeping nothing open.
func (f FS) ReadNodeMemory(rules MemoryRules) (MemorySample, error) {
	h, err := f.MemoryHierarchy()
	if err != nil {
		return MemorySample{}, err
	}
	g := h.NodeMemory(rules)
	defer g.Close()
	return g.Read(&Buffer{})
}

// Read reads the figures now.
func (g *Gauge[T]) Read(b *Buffer) (T, error) {
	var none T
	files, err := g.acquire(nil)
	if err != nil {
		return none, err
	}
	s, err := files.read(b)
	if !errors.Is(err, ErrGone) {
		return s, err
	}
	if files, err = g.acquire(files); err != nil {
		return none, err
	}
	return files.read(b)
}

// Close closes the files. A later read reopens them.
func (g *Gauge[T]) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.files != nil {
		g.files.close()
		g.files = nil
	}
}

// acquire returns the open files. It reopens them if they are still stale.
func (g *Gauge[T]) acquire(stale gaugeFiles[T]) (gaugeFiles[T], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.files != nil && g.files != stale {
		return g.files, nil
	}
	if g.files != nil {
		g.files.close()
		g.files = nil
	}
	files, err := g.open()
	if err == nil {
		g.files = files
	}
	return files, err
}

func (f *memoryFiles) read(b *Buffer) (MemorySample, error) {
	m, err := f.machine.Read(b)
	if err != nil && f.node { // else its size is not known
		return MemorySample{}, err
	}
	use, err := f.limits[0].use.Read(b)
	if err != nil {
		return MemorySample{}, err
	}
	own := bound[MemoryUse]{use: use, limited: f.node, max: m.TotalBytes}
	used, wrong := use.WorkingSetOf(m.Whole())
	if wrong != nil {
		own.use, used = MemoryUse{}, 0
	}
	own.left = m.TotalBytes - m.HugePagesBytes - used
	s, err := f.limits.closest(b, own, m.Whole(), MemoryUse.WorkingSetOf)
	switch {
	case err != nil:
		return MemorySample{}, err
	case wrong != nil && (!m.hasAvailable || s.of != ""):
		return MemorySample{}, fmt.Errorf("cgroup %s: %w", f.limits[0].cgroup, wrong)
	}
	hugePages := m.HugePagesBytes
	if s.of != "" {
		hugePages = 0
	}
	out := sample(s.use, s.max, hugePages, s.limited)
	out.LimitOf = s.of
	if out.MemAvailableBytes, out.HasMemAvailable = m.availableBytes, m.hasAvailable; m.hasAvailable {
		switch {
		case f.figure == MemAvailable && s.of == "":
			out.AvailableBytes = m.availableBytes
		case f.figure != KubeletMemory || wrong != nil:
			out.AvailableBytes = min(out.AvailableBytes, m.availableBytes)
		}
	}
	if wrong != nil {
		out.ImpossibleBytes = max(use.UsageBytes, use.InactiveFileBytes)
	}
	return out, nil
}

func (f *memoryFiles) close() {
	f.machine.Close()
	f.limits.close()
}

func sample(use MemoryUse, limit, hugePages int64, limited bool) MemorySample {
	s := MemorySample{MemoryUse: use, Limited: limited}
	if limited {
		s.LimitBytes, s.HugePagesBytes, s.CapacityBytes = limit, hugePages, limit
		s.AvailableBytes = max(0, limit-hugePages-use.WorkingSetBytes())
		if hugePages > 0 {
			s.CapacityBytes = s.AvailableBytes + use.WorkingSetBytes()
		}
	}
	return s
}
