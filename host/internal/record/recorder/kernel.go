package recorder

import (
	"context"
	"log/slog"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
)

// KernelKills finds what the kernel's OOM killer has killed. Its methods are called from one goroutine.
type KernelKills interface {
	// Moved reports whether Look has something to find. It is called with each sample and pass, and reads one file.
	Moved() bool
	// Look returns a record of each kill since the last look, with what was killed. calm: the node has had memory to spare since.
	Look(ctx context.Context, calm bool) ([]*decision.Decision, error)
}

// A kernelWatch looks for kernel kills when asked.
type kernelWatch struct {
	// kills is nil if none are looked for.
	kills KernelKills
	asked chan struct{}
	// calm reports whether the node has memory to spare.
	calm func() bool
	// found receives kills that were seen at a time, and were not yet there at the look before.
	found func(kills []*decision.Decision, at, before time.Time)
	log   *slog.Logger
}

// ask asks for a look. It never blocks.
func (w *kernelWatch) ask() {
	select {
	case w.asked <- struct{}{}:
	default:
	}
}

// run looks until ctx ends.
func (w *kernelWatch) run(ctx context.Context) {
	failing := false
	for since := time.Now(); ; {
		select {
		case <-w.asked:
		case <-ctx.Done():
			return
		}
		at := time.Now()
		if w.kills.Moved() {
			found, err := w.kills.Look(ctx, w.calm())
			if err != nil && !failing {
				w.log.Warn("kernel kills are not found", "error", err)
			}
			if failing = err != nil; failing {
				continue // since stays
			}
			w.found(found, at, since)
		}
		since = at
	}
}
