package podusage

import (
	"context"
	"sync/atomic"

	"github.com/evictd/evictd/plugins/disk/internal/walk"
)

// A scheduler has the directories of one call walked. They take turns of chunkEntries, so
// that a large one holds up no other. When the call's time or entries are used up,
// each directory has the answer that it has by then.
type scheduler struct {
	call *call
	open func(string, walk.Options) (walker, error)
	// todo has room for all tasks, so that one can always be put back. It is
	// closed when none is left, as is walked, which has the pods that are done.
	todo   chan *task
	walked chan *pod
	left   atomic.Int64 // tasks without an answer
	// entries is what may still be looked at.
	entries atomic.Int64
}

// A task is one directory of a pod in one call.
type task struct {
	pod  *pod
	tree *tree
	look look
}

func newScheduler(m *Meter, c *call, pods []*pod) *scheduler {
	var first, tasks []*task
	for _, p := range pods {
		for _, v := range p.tasks {
			if v.tree.isBegun() {
				first = append(first, v)
			} else {
				tasks = append(tasks, v)
			}
		}
	}
	tasks = append(first, tasks...) // what was begun is to come to its end
	r := &scheduler{call: c, open: m.trees.open, todo: make(chan *task, len(tasks)), walked: make(chan *pod, len(pods))}
	r.entries.Store(m.walk.EntriesPerMeasure)
	r.left.Store(int64(len(tasks)))
	for _, p := range pods {
		if len(p.tasks) == 0 {
			r.walked <- p
		}
	}
	for _, v := range tasks {
		r.todo <- v
	}
	if len(tasks) == 0 {
		r.close()
	}
	return r
}

// work takes tasks until none is left. Several goroutines do it at a time.
func (r *scheduler) work(ctx, stop context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for v := range r.todo {
		if r.entries.Load() <= 0 {
			cancel()
		}
		a := v.tree.step(ctx, stop, r.call, r.open)
		r.entries.Add(-a.spent)
		if !a.ok {
			r.todo <- v
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
