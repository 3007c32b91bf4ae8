package recorder

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
)

// KernelKills finds what the kernel's OOM killer has killed.
type KernelKills interface {
	// Moved reports whether Look has something to find. It is called with each sample and pass, and reads one file. It may be
	// called while Look runs.
	Moved() bool
	// Look returns a record of each kill since the last look, with what was killed. calm: the node has had memory to spare since.
	Look(ctx context.Context, calm bool) ([]*decision.Decision, error)
}

// askEvery is the least time between two reads of the kernel's counter: samples and passes come more often.
const askEvery = 500 * time.Millisecond

// A kernelWatch looks for kernel kills when asked.
type kernelWatch struct {
	// kills is nil if none are looked for.
	kills KernelKills
	moved chan struct{}
	// quiet is when the kernel had killed nothing more, in nanoseconds since began.
	quiet atomic.Int64
	began time.Time
	// calm reports whether the node has memory to spare.
	calm func() bool
	// found receives kills that were seen at a time, and were not yet there at a time before.
	found func(kills []*decision.Decision, at, before time.Time)
	log   *slog.Logger
}

// ask has kills looked for if there are any. It never blocks, and wakes no other goroutine if there are none.
func (w *kernelWatch) ask() {
	at := time.Since(w.began)
	if w.kills == nil || at-time.Duration(w.quiet.Load()) < askEvery {
		return
	}
	if !w.kills.Moved() {
		w.quiet.Store(int64(at))
		return
	}
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// run looks until ctx ends.
func (w *kernelWatch) run(ctx context.Context) {
	failing := false
	for {
		select {
		case <-w.moved:
		case <-ctx.Done():
			return
		}
		at := time.Now()
		before := w.began.Add(time.Duration(w.quiet.Load()))
		found, err := w.kills.Look(ctx, w.calm())
		if err != nil && !failing {
			w.log.Warn("kernel kills are not found", "error", err)
		}
		if failing = err != nil; len(found) > 0 {
			w.found(found, at, before)
		}
	}
}
