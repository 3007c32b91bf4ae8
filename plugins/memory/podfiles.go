package memory

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// podFiles keeps the memory files of pods open: opening them costs three times
// what reading them does, and an eviction is in a hurry.
type podFiles struct {
	hierarchy nodefs.Hierarchy
	names     nodefs.CgroupNames
	// limit is the number of pods whose files are kept open. Those of others are
	// opened and closed for each read.
	limit int

	mu   sync.Mutex
	open map[string]*nodefs.MemoryCgroup // by pod uid
}

func newPodFiles(h nodefs.Hierarchy, names nodefs.CgroupNames) *podFiles {
	return &podFiles{hierarchy: h, names: names, limit: maxOpenPods(), open: make(map[string]*nodefs.MemoryCgroup)}
}

// maxOpenPods leaves half of the descriptors that the process may have to
// everything else. A pod takes two.
func maxOpenPods() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 128
	}
	return int(min(limit.Cur, 1<<20) / 4)
}

// read reads what a pod uses. The error wraps nodefs.ErrGone when the pod has no
// cgroup.
func (p *podFiles) read(pod *eviction.Pod, b *nodefs.Buffer) (nodefs.MemoryUse, error) {
	p.mu.Lock()
	c := p.open[pod.UID]
	p.mu.Unlock()
	if c != nil {
		use, err := c.Read(b)
		if !errors.Is(err, nodefs.ErrGone) {
			return use, err
		}
		p.forget(pod.UID, c)
	}
	path, err := p.names.Pod(pod.UID, string(pod.QoSClass))
	if err != nil {
		return nodefs.MemoryUse{}, err
	}
	if c, err = p.hierarchy.OpenMemory(path); err != nil {
		return nodefs.MemoryUse{}, err
	}
	use, err := c.Read(b)
	if err != nil || !p.keep(pod.UID, c) {
		c.Close()
	}
	return use, err
}

// probe looks at up to n pods, other ones each time since maps are walked in a
// random order, and closes the files of those that are gone.
func (p *podFiles) probe(n int, b *nodefs.Buffer) {
	type entry struct {
		uid string
		c   *nodefs.MemoryCgroup
	}
	entries := make([]entry, 0, n)
	p.mu.Lock()
	for uid, c := range p.open {
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

// keep reports whether c is now the one kept for the pod.
func (p *podFiles) keep(uid string, c *nodefs.MemoryCgroup) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[uid] != nil || len(p.open) >= p.limit {
		return false // a concurrent read was first, or there are enough
	}
	p.open[uid] = c
	return true
}

func (p *podFiles) forget(uid string, c *nodefs.MemoryCgroup) {
	p.mu.Lock()
	if p.open[uid] == c {
		delete(p.open, uid)
	}
	p.mu.Unlock()
	c.Close()
}
