package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
)

// unhealthyAfter passes before /healthz tells of a failure that may end by itself.
const unhealthyAfter = 30 * time.Second

// listings lists the pods of a daemon and notes how that goes.
type listings struct {
	podSource
	log *slog.Logger

	mu sync.Mutex
	// since is the time of the first of the listings that have all failed, err the last error
	// once that has been so for a while.
	since time.Time
	err   error
	// partial is why pods may have been missing in the last listing that did not fail.
	partial []pods.Problem
}

// Active implements pods.Source.
func (l *listings) Active(ctx context.Context) (pods.Snapshot, error) {
	s, err := l.podSource.Active(ctx)
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
	case now.Sub(l.since) >= unhealthyAfter:
		if l.err == nil {
			l.log.Error("pods cannot be listed, none can be evicted until they can", "since", l.since, "error", err)
		}
		l.err = fmt.Errorf("pods have not been listed since %s: %w", l.since.UTC().Format(time.RFC3339), err)
	}
	s.Problems = append(s.Problems, l.partial...)
	return s, err
}

// Problems returns what is wrong with what the pods are known from.
func (l *listings) Problems() []pods.Problem {
	problems := l.podSource.Problems()
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(problems, l.partial...)
}

// healthy reports why pods cannot be listed, if that has been so for a while.
func (l *listings) healthy() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
