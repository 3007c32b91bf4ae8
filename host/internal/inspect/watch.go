package inspect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// watchEvery is the time between two looks of a Watch at a node without errors.
	watchEvery = time.Hour
	// watchAgain is the time to the next look at one with errors. It doubles up to
	// watchAgainMost as long as the findings stay the same.
	watchAgain     = 10 * time.Second
	watchAgainMost = 5 * time.Minute
)

// A Lasting is a finding of a daemon.
type Lasting struct {
	Finding

	// Since is the time of the first of the looks that have all found it.
	Since time.Time `json:"since"`
}

// A Watch repeats the probes while a daemon runs, but for those of what the daemon notices by
// itself. Found and Healthy may be called by any goroutine, also of a nil Watch.
type Watch struct {
	options func() Options
	log     *slog.Logger
	again   chan struct{}
	found   atomic.Pointer[[]Lasting]
}

// NewWatch returns a watch that has found nothing yet. options are called before each look.
func NewWatch(options func() Options, log *slog.Logger) *Watch {
	return &Watch{options: options, log: log, again: make(chan struct{}, 1)}
}

// Run looks now, after each Again, and again and again until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	again := watchAgain
	for {
		former := w.Found()
		found := w.look(ctx)
		wait := watchEvery
		if slices.ContainsFunc(found, func(l Lasting) bool { return l.Level != Warning }) {
			again = min(2*again, watchAgainMost)
			if !slices.Equal(found, former) {
				again = watchAgain
			}
			wait = again
		}
		select {
		case <-ctx.Done():
			return
		case <-w.again:
		case <-time.After(wait):
		}
	}
}

// Again has Run look soon, after a reload.
func (w *Watch) Again() {
	if w == nil {
		return
	}
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// look logs what the look before it had not found.
func (w *Watch) look(ctx context.Context) []Lasting {
	now, former := time.Now(), w.Found()
	var found []Lasting
	for _, f := range run(ctx, w.options(), func(p probe) bool { return p.daemon }) {
		i := slices.IndexFunc(former, func(l Lasting) bool { return l.Finding == f })
		switch {
		case i >= 0:
			found = append(found, former[i])
			continue
		case ctx.Err() != nil:
			return nil
		case f.Level == Warning:
			w.log.Warn("node or configuration is not as it should be", "finding", f.Text)
		default:
			w.log.Error("node or configuration is not as evictd needs it", "finding", f.Text)
		}
		found = append(found, Lasting{f, now})
	}
	if len(found) == 0 && len(former) > 0 {
		w.log.Info("node and configuration are as evictd needs them")
	}
	w.found.Store(&found)
	return found
}

// Found returns what the last look has found.
func (w *Watch) Found() []Lasting {
	if w == nil {
		return nil
	}
	if found := w.found.Load(); found != nil {
		return *found
	}
	return nil
}

// Healthy returns the errors that have lasted for longer than after.
func (w *Watch) Healthy(after time.Duration) error {
	var errs []error
	for _, f := range w.Found() {
		if f.Level != Warning && time.Since(f.Since) >= after {
			errs = append(errs, fmt.Errorf("%s (since %s)", f.Text, f.Since.UTC().Format(time.RFC3339)))
		}
	}
	return errors.Join(errs...)
}
