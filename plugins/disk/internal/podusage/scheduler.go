package podusage

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/evictd/evictd/plugins/disk/internal/walk"
)

// A scheduler has the directories of one call walked. They take turns of chunkEntries, so
// that a large one holds up no other. When the call's time or entries are used up,
// each directory has the answer that it has by then.
type scheduler struct {
	call *call
	open func(string, walk.Options) (walker, error)
	// todo has the pods with tasks, each once: what takes turns is pods, so that one with many
	// directories takes no more than its share. It has room for all of them, and is
	// closed when no task is left, as is walked, which has the pods that are done.
	todo   chan *pod
	walked chan *pod
	left   atomic.Int64 // tasks without an answer
	// entries is what may still be looked at.
	entries atomic.Int64

	mu sync.Mutex // for the pods' tasks, and whether they are queued
}

// A task is one directory of a pod in one call.
type task struct {
	pod  *pod
	tree *tree
	look look
}

func newScheduler(m *Meter, c *call, pods []*pod) *scheduler {
	r := &scheduler{call: c, open: m.trees.open, todo: make(chan *pod, len(pods)), walked: make(chan *pod, len(pods))}
	r.entries.Store(m.walk.EntriesPerMeasure)
	var first, others []*pod
	for _, p := range pods {
		if len(p.tasks) == 0 {
			r.walked <- p
			continue
		}
		r.left.Add(int64(len(p.tasks)))
		// What was begun is to come to its end.
		var begun, rest []*task
		for _, v := range p.tasks {
			if v.tree.isBegun() {
				begun = append(begun, v)
			} else {
				rest = append(rest, v)
			}
		}
		p.tasks, p.queued = append(begun, rest...), true
		if len(begun) > 0 {
			first = append(first, p)
		} else {
			others = append(others, p)
		}
	}
	for _, p := range append(first, others...) {
		r.todo <- p
	}
	if r.left.Load() == 0 {
		r.close()
	}
	return r
}

// next takes a task of the pod whose turn it is.
func (r *scheduler) next(p *pod) *task {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := p.tasks[0]
	p.tasks, p.queued = p.tasks[1:], false
	r.queue(p)
	return v
}

// back puts a task behind the others of its pod.
func (r *scheduler) back(v *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.pod.tasks = append(v.pod.tasks, v)
	r.queue(v.pod)
}

// queue is called with mu held.
func (r *scheduler) queue(p *pod) {
	if len(p.tasks) > 0 && !p.queued {
		p.queued = true
		r.todo <- p
	}
}

// work takes tasks until none is left. Several goroutines do it at a time.
func (r *scheduler) work(ctx, stop context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for p := range r.todo {
		v := r.next(p)
		if r.entries.Load() <= 0 {
			cancel()
		}
		a := v.tree.step(ctx, stop, r.call, r.open)
		r.entries.Add(-a.spent)
		if !a.ok {
			r.back(v)
			continue
		}
		v.look = a.look
		if v.pod.left.Add(-1) == 0 {
			r.walked <- v.pod
		}
		if r.left.Add(-1) == 0 {
			r.close()
		}
	}
}

func (r *scheduler) close() {
	close(r.todo)
	close(r.walked)
}
