// Package listing tracks whether a daemon's pods can be listed, for /healthz and the log. It
// decides nothing.
package listing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/shared/answers"
)

// UnhealthyAfter is the time for which /healthz tolerates a failure that may be temporary.
const UnhealthyAfter = 30 * time.Second

// firstRetry is short because evictd's own pod is not ready before, and its rollout waits.
const firstRetry = time.Second

// A PodSource lists the pods of the node, and reports problems with their origin.
type PodSource interface {
	pods.Source
	pods.Preparer
	Problems() []pods.Problem
}

// A Source lists the pods of a daemon and tracks failures. It is safe for concurrent use if its
// PodSource is.
type Source struct {
	PodSource
	log *slog.Logger

	mu sync.Mutex
	// listed: a listing has succeeded. logged: the present failure was logged.
	listed, logged bool
	// since is the time of the first of the consecutive failed listings, err the error to report.
	since time.Time
	err   error
	// partial is why pods may have been missing in the last successful listing.
	partial []pods.Problem
}

// errNotYet is reported until the first success. Errors before that are not tolerated: a wrong
// address or socket would pass for an outage.
var errNotYet = errors.New("pods have not been listed yet")

// New returns a source of the pods of from.
func New(from PodSource, log *slog.Logger) *Source {
	return &Source{PodSource: from, log: log, err: errNotYet}
}

// AwaitFirst returns after the first successful listing, or when ctx ends. It lists until then,
// because a node without pressure may not need a listing for a minute.
func (l *Source) AwaitFirst(ctx context.Context) {
	again := time.NewTicker(firstRetry)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if !errors.Is(l.Healthy(), errNotYet) {
			return
		}
		_, _ = l.Active(ctx) // Healthy reports the error
	}
}

// Active implements pods.Source.
func (l *Source) Active(ctx context.Context) (pods.Snapshot, error) {
	s, err := l.PodSource.Active(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return s, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.partial = nil
		for _, input := range s.Stale {
			if input.Input != pods.APIServer { // which reports its problem itself
				l.partial = append(l.partial, pods.Problem{File: "container runtime", Err: input.Err, Used: true})
			}
		}
	}
	l.note(cmp.Or(err, old(s.Stale), neverListed(s.Problems)), time.Now())
	s.Problems = append(s.Problems, l.partial...)
	return s, err
}

// old returns why the runtime's lists are old, nil if they are new, only too large, or lack pods that
// another program may run.
func old(stale []pods.Stale) error {
	for _, s := range stale {
		if s.Input != pods.APIServer && !answers.IsRefused(s.Err) && !errors.Is(s.Err, criclient.ErrIncomplete) {
			return fmt.Errorf("%w, those known before count, and cgroups with processes", s.Err)
		}
	}
	return nil
}

// neverListed returns why the API server has not sent any pod yet.
func neverListed(problems []pods.Problem) error {
	for _, p := range problems {
		if !p.Used && errors.Is(p.Err, pods.ErrNeverListed) {
			return p
		}
	}
	return nil
}

// note records the result of a listing.
func (l *Source) note(err error, now time.Time) {
	if err == nil {
		l.listed, l.logged, l.since, l.err = true, false, time.Time{}, nil
		return
	}
	if l.since.IsZero() {
		l.since = now
	}
	late := now.Sub(l.since) >= UnhealthyAfter
	switch {
	case !l.listed:
		l.err = fmt.Errorf("%w: %w", errNotYet, err)
	case late:
		l.err = fmt.Errorf("pods have not been listed since %s: %w", l.since.UTC().Format(time.RFC3339), err)
	}
	if late && !l.logged {
		l.log.Error("pods not listed", "since", l.since, "error", err)
		l.logged = true
	}
}

// Problems returns the problems with the origin of the pods.
func (l *Source) Problems() []pods.Problem {
	problems := l.PodSource.Problems()
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(problems, l.partial...)
}

// Healthy returns why pods cannot be listed, if that has lasted for a while or from the start.
func (l *Source) Healthy() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
