// Package listing notes how the listings of a daemon's pods go, for /healthz and the log. It
// does not list by itself: a pod source does, when the loop needs pods.
package listing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
)

// UnhealthyAfter passes before /healthz tells of a failure that may end by itself.
const UnhealthyAfter = 30 * time.Second

// A PodSource knows the pods of the node, and what is wrong with what it knows them
// from.
type PodSource interface {
	pods.Source
	Problems() []pods.Problem
}

// A Source lists the pods of a daemon and notes how that goes. It is safe for concurrent use
// if its PodSource is.
type Source struct {
	PodSource
	log *slog.Logger

	mu sync.Mutex
	// since is the time of the first of the listings that have all failed, err the last error
	// once that has been so for a while.
	since time.Time
	err   error
	// partial is why pods may have been missing in the last listing that did not fail.
	partial []pods.Problem
}

// New returns a source of the pods of from.
func New(from PodSource, log *slog.Logger) *Source { return &Source{PodSource: from, log: log} }

// Active implements pods.Source.
func (l *Source) Active(ctx context.Context) (pods.Snapshot, error) {
	s, err := l.PodSource.Active(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return s, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		l.since, l.err, l.partial = time.Time{}, nil, nil
		if s.Partial != nil {
			l.partial = []pods.Problem{{File: "container runtime", Err: s.Partial, Used: true}}
		}
	case l.since.IsZero():
		l.since = now
	case now.Sub(l.since) >= UnhealthyAfter:
		if l.err == nil {
			l.log.Error("pods cannot be listed, none can be evicted until they can", "since", l.since, "error", err)
		}
		l.err = fmt.Errorf("pods have not been listed since %s: %w", l.since.UTC().Format(time.RFC3339), err)
	}
	s.Problems = append(s.Problems, l.partial...)
	return s, err
}

// Problems returns what is wrong with what the pods are known from.
func (l *Source) Problems() []pods.Problem {
	problems := l.PodSource.Problems()
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(problems, l.partial...)
}

// Healthy reports why pods cannot be listed, if that has been so for a while.
func (l *Source) Healthy() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
