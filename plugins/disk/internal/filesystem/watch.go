package filesystem

import (
	"context"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
)

// watchWait limits the wait for a filesystem once; one that hangs is not asked again before it answers.
const watchWait = 100 * time.Millisecond

// Watcher returns a function that reads the room of those filesystems that are known and answer now. It
// asks no runtime and takes some µs. Only one goroutine may call it, and ctx ends its waits.
func (f *Filesystems) Watcher(ctx context.Context) func([]eviction.Signal) []eviction.Observation {
	hanging := new(hang.Left)
	return func(signals []eviction.Signal) []eviction.Observation {
		var all samples
		rooms := map[*place]*sample{}
		room := func(p *place) *sample {
			if p != nil && rooms[p] == nil {
				rooms[p] = p.glance(ctx, hanging)
			}
			return rooms[p]
		}
		f.mu.Lock()
		node, images, containers := f.kubelet, f.images, f.containers
		f.mu.Unlock()
		var observations []eviction.Observation
		for _, s := range signals {
			switch b, _ := eviction.Builtin(s); b.Filesystem {
			case eviction.NodeFs:
				all.node = room(node)
			case eviction.ImageFs:
				all.image = room(images)
			default:
				all.container = room(containers)
			}
			if of := all.of(s); of != nil {
				observations = append(observations, of.observation(s, nil))
			}
		}
		return observations
	}
}

// glance reads the place, unless an earlier glance at it hangs.
func (p *place) glance(ctx context.Context, hanging *hang.Left) *sample {
	ctx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	s, err := hang.DoAs(hanging, p.path, ctx.Done(), func() (*sample, error) {
		p.slot <- struct{}{}
		defer func() { <-p.slot }()
		return p.read(), nil
	})
	if err != nil {
		return &sample{err: err}
	}
	return s
}
