package podusage

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/plugins/internal/walk"
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
	var todo []*pod
	for _, p := range pods {
		if len(p.tasks) == 0 {
			r.walked <- p
			continue
		}
		slices.SortStableFunc(p.tasks, func(a, b *task) int { return a.tree.turn() - b.tree.turn() })
		todo = append(todo, p)
	}
	slices.SortStableFunc(todo, func(a, b *pod) int { return a.tasks[0].tree.turn() - b.tasks[0].tree.turn() })
	r.left.Store(int64(len(todo)))
	for _, p := range todo {
		r.todo <- p
	}
	if r.left.Load() == 0 {
		r.close()
	}
	return r
}

// turnTime bounds a turn of a pod, if much has to be read from the disk.
const turnTime = hangsAfter

// work gives the next pod its turn until none is left: up to chunkEntries, so that small pods are done
// in one turn and few walks wait. Several goroutines run it, each for another pod.
func (r *scheduler) work(ctx, stop context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for p := range r.todo {
		if r.entries.Load() <= 0 {
			cancel()
		}
		for began, left := time.Now(), int64(chunkEntries); left > 0 && len(p.tasks) > 0 && time.Since(began) < turnTime; {
			v := p.tasks[0]
			a := v.tree.step(ctx, stop, r.call, r.open)
			r.entries.Add(-a.spent)
			left -= a.spent
			if v.look = a.look; a.ok {
				p.tasks = p.tasks[1:]
			}
		}
		if len(p.tasks) > 0 {
			p.tasks = append(p.tasks[1:], p.tasks[0])
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
