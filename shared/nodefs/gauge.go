package nodefs

import (
	"errors"
	"fmt"
	"sync"
)

// MemorySample is a memory figure with all that it was computed from.
type MemorySample struct {
	MemoryUse
	// Limited is false when there is no limit: nothing is known to be available
	// then, and the fields below are zero.
	Limited bool
	// CapacityBytes is the limit. The kubelet adds up what is available and the
	// working set, which is the same.
	CapacityBytes int64
	// AvailableBytes is the limit less the working set. The kubelet computes it
	// unsigned and casts, so that it is negative while the use is over the limit;
	// here that reads as zero. It is at most MemAvailableBytes if Capped.
	AvailableBytes int64
	// MemAvailableBytes is MemAvailable of /proc/meminfo, 0 if not Capped.
	MemAvailableBytes int64
	Capped            bool
}

// A MemoryGauge reads how much memory is available to a cgroup.
type MemoryGauge = Gauge[MemorySample]

// A Gauge reads a figure of the node. It keeps its files open, and opens them again when
// the cgroup that they are of was removed and made again. It may be used concurrently,
// with a Buffer for each caller.
type Gauge[T any] struct {
	open func() (gaugeFiles[T], error)

	mu    sync.Mutex
	files gaugeFiles[T] // nil until the first read and while the cgroup is gone
}

type gaugeFiles[T any] interface {
	read(b *Buffer) (T, error)
	close()
}

// memoryFiles are those of a MemoryGauge.
type memoryFiles struct {
	cgroup *MemoryCgroup
	limit  *File
	parse  func([]byte) (limit int64, ok bool, err error)
	capped bool // by what limit says is available
}

// NodeMemory is the gauge of the whole node: the root cgroup's use against the
// machine's memory, which is what cAdvisor says the root's limit is.
//
// A pool of huge pages, the cache of ZFS and much of the kernel's own memory are in use and
// in no cgroup, so that the kubelet takes them to be available. Where capped, no more is than
// the kernel says. Else it says more, since the kubelet counts active page cache as used.
func (h Hierarchy) NodeMemory(capped bool) *MemoryGauge {
	return &MemoryGauge{open: func() (gaugeFiles[MemorySample], error) {
		limit, err := h.FS.Open("/proc/meminfo")
		if err != nil {
			return nil, err
		}
		return h.openGauge("/", limit, capped, parseMemTotal)
	}}
}

func parseMemTotal(b []byte) (total int64, ok bool, err error) {
	if total, ok, err = parseMeminfo(b, keyMemTotal); err == nil && !ok {
		err = missing(keyMemTotal)
	}
	return total, ok, err
}

// CgroupMemory is the gauge of one cgroup: its use against its own limit. A read
// returns an error that wraps ErrGone while there is no such cgroup.
func (h Hierarchy) CgroupMemory(cgroup string) *MemoryGauge {
	name := "memory.max"
	if h.Version == V1 {
		name = "memory.limit_in_bytes"
	}
	return &MemoryGauge{open: func() (gaugeFiles[MemorySample], error) {
		limit, err := h.open(cgroup, name)
		if err != nil {
			return nil, err
		}
		return h.openGauge(cgroup, limit, false, parseLimit)
	}}
}

func (h Hierarchy) openGauge(cgroup string, limit *File, capped bool, parse func([]byte) (int64, bool, error)) (gaugeFiles[MemorySample], error) {
	use, err := h.OpenMemory(cgroup)
	if err != nil {
		limit.Close()
		return nil, err
	}
	return &memoryFiles{cgroup: use, limit: limit, parse: parse, capped: capped}, nil
}

// ReadNodeMemory reads the node's memory once, keeping nothing open.
func (f FS) ReadNodeMemory() (MemorySample, error) {
	h, err := f.MemoryHierarchy()
	if err != nil {
		return MemorySample{}, err
	}
	g := h.NodeMemory(true)
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

// Close closes the files. A later read opens them again.
func (g *Gauge[T]) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.files != nil {
		g.files.close()
		g.files = nil
	}
}

// acquire returns the open files, and others than stale.
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
	content, err := f.limit.Read(b)
	if err != nil {
		return MemorySample{}, err
	}
	limit, limited, err := f.parse(content)
	var machine int64
	capped := false
	if err == nil && f.capped {
		machine, capped, err = parseMeminfo(content, keyMemAvailable)
	}
	if err != nil {
		return MemorySample{}, fmt.Errorf("parse %s: %w", f.limit.Path(), err)
	}
	use, err := f.cgroup.Read(b)
	if err != nil {
		return MemorySample{}, err
	}
	s := sample(use, limit, limited)
	if capped {
		s.AvailableBytes, s.MemAvailableBytes, s.Capped = min(s.AvailableBytes, machine), machine, true
	}
	return s, nil
}

func (f *memoryFiles) close() {
	f.cgroup.Close()
	f.limit.Close()
}

func sample(use MemoryUse, limit int64, limited bool) MemorySample {
	s := MemorySample{MemoryUse: use, Limited: limited}
	if limited {
		s.CapacityBytes = limit
		s.AvailableBytes = max(0, limit-use.WorkingSetBytes())
	}
	return s
}
