package nodefs

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// PodCgroups reads one kind of figure from the cgroups of pods. It keeps the files open: opening
// them costs three times as much as reading, which would delay an eviction. It may be used
// concurrently, with a Buffer for each caller.
type PodCgroups[T any] struct {
	names *Naming
	open  func(cgroup string) (podCgroup[T], error)
	// limit is the maximum number of pods whose files stay open. The files of other pods are
	// opened and closed for each read.
	limit int

	mu   sync.Mutex
	kept map[string]podCgroup[T] // by pod UID
}

// podCgroup is the open files of one pod.
type podCgroup[T any] interface {
	Read(b *Buffer) (T, error)
	Alive(b *Buffer) bool
	Close()
}

// PodMemory returns a reader of the memory usage of pods.
func (h Hierarchy) PodMemory(names *Naming) *PodCgroups[MemoryUse] {
	return newPodCgroups(names, 2, func(cgroup string) (podCgroup[MemoryUse], error) { return h.OpenMemory(cgroup) })
}

// PodTasks returns a reader of the number of tasks of pods.
func (h Hierarchy) PodTasks(names *Naming) *PodCgroups[int64] {
	return newPodCgroups(names, 1, func(cgroup string) (podCgroup[int64], error) { return h.OpenTasks(cgroup) })
}

func newPodCgroups[T any](names *Naming, descriptors uint64, open func(string) (podCgroup[T], error)) *PodCgroups[T] {
	return &PodCgroups[T]{names: names, open: open, limit: maxOpenPods(descriptors), kept: make(map[string]podCgroup[T])}
}

// KeepingNone makes p open and close the files for each read, and returns p.
func (p *PodCgroups[T]) KeepingNone() *PodCgroups[T] {
	p.limit = 0
	return p
}

// maxOpenPods returns the number of pods whose files may stay open, each with the given number
// of descriptors, so that half of the process's descriptors remain for everything else.
func maxOpenPods(descriptors uint64) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 128
	}
	return int(min(limit.Cur, 1<<20) / 2 / descriptors)
}

// Read reads the figure of a pod, which Naming.Pod finds. The error wraps ErrGone when the pod has
// no cgroup.
func (p *PodCgroups[T]) Read(uid, qosClass string, b *Buffer) (T, error) {
	var none T
	p.mu.Lock()
	c := p.kept[uid]
	p.mu.Unlock()
	if c != nil {
		figure, err := c.Read(b)
		if !errors.Is(err, ErrGone) {
			return figure, err
		}
		p.forget(uid, c)
	}
	var opened podCgroup[T] // not c, which the function below would move to the heap
	err := p.names.Pod(uid, qosClass, func(cgroup string) (err error) {
		opened, err = p.open(cgroup)
		return err
	})
	if err != nil {
		return none, err
	}
	figure, err := opened.Read(b)
	if err != nil || !p.keep(uid, opened) {
		opened.Close()
	}
	return figure, err
}

// ProbesPerPass is the number of pods whose files an observation probes, so that files of pods
// that are never measured again are closed in time. It is fixed, so that the cost of an
// observation does not depend on the number of pods.
const ProbesPerPass = 16

// Probe closes the files of those of up to n pods that are gone. It probes other pods each time,
// since maps are iterated in random order.
func (p *PodCgroups[T]) Probe(n int, b *Buffer) {
	type entry struct {
		uid string
		c   podCgroup[T]
	}
	entries := make([]entry, 0, n)
	p.mu.Lock()
	for uid, c := range p.kept {
		if len(entries) == n {
			break
		}
		entries = append(entries, entry{uid, c})
	}
	p.mu.Unlock()
	for _, e := range entries {
		if !e.c.Alive(b) {
			p.forget(e.uid, e.c)
		}
	}
}

// Kept returns the number of pods whose files are open.
func (p *PodCgroups[T]) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.kept)
}

// Close closes the files. A later read opens them again.
func (p *PodCgroups[T]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.kept {
		c.Close()
	}
	clear(p.kept)
}

// keep keeps c open for the pod and returns true, unless another is kept or the limit reached.
func (p *PodCgroups[T]) keep(uid string, c podCgroup[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept[uid] != nil || len(p.kept) >= p.limit {
		return false // a concurrent read was first, or the limit is reached
	}
	p.kept[uid] = c
	return true
}

func (p *PodCgroups[T]) forget(uid string, c podCgroup[T]) {
	p.mu.Lock()
	if p.kept[uid] == c {
		delete(p.kept, uid)
	}
	p.mu.Unlock()
	c.Close()
}
