package podusage

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/evictd/evictd/plugins/disk/internal/walk"
)

// A scheduler walks the directories of one call. They take turns of chunkEntries, so that a
// large one does not delay the others. When the call's time or entries are used up, each
// directory keeps the answer that it has by then.
type scheduler struct {
	call *call
	open func(string, walk.Options) (walker, error)
	// todo has the pods with unfinished tasks, each once, so that a pod with many directories gets
	// no more than its share; walked has the pods that are done. Both are closed when no task is
	// left.
	todo, walked chan *pod
	left         atomic.Int64 // pods with tasks
	// entries is the number of directory entries that may still be read.
	entries atomic.Int64
}

// A task is one directory of a pod in one call.
type task struct {
	tree *tree
	look look
}

func newScheduler(m *Meter, c *call, pods []*pod) *scheduler {
	r := &scheduler{call: c, open: m.trees.open, todo: make(chan *pod, len(pods)), walked: make(chan *pod, len(pods))}
	r.entries.Store(m.walk.EntriesPerMeasure)
	var first, rest []*pod
	for _, p := range pods {
		// Unfinished walks come first, so that they are completed.
		begun := func(v *task) bool { return v.tree.isBegun() }
		switch i := slices.IndexFunc(p.tasks, begun); {
		case len(p.tasks) == 0:
			r.walked <- p
		case i < 0:
			rest = append(rest, p)
		default:
			p.tasks[0], p.tasks[i] = p.tasks[i], p.tasks[0]
			first = append(first, p)
		}
	}
	r.left.Store(int64(len(first) + len(rest)))
	for _, p := range append(first, rest...) {
		r.todo <- p
	}
	if r.left.Load() == 0 {
		r.close()
	}
	return r
}

// work walks a chunk of the next pod until none is left. Several goroutines run it, each for
// another pod.
func (r *scheduler) work(ctx, stop context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for p := range r.todo {
		if r.entries.Load() <= 0 {
			cancel()
		}
		v := p.tasks[0]
		p.tasks = p.tasks[1:]
		a := v.tree.step(ctx, stop, r.call, r.open)
		r.entries.Add(-a.spent)
		if v.look = a.look; !a.ok {
			p.tasks = append(p.tasks, v)
		}
		if len(p.tasks) > 0 {
			r.todo <- p
			continue
		}
		r.walked <- p
		if r.left.Add(-1) == 0 {
			r.close()
		}
	}
}

func (r *scheduler) close() {
	close(r.todo)
	close(r.walked)
}
