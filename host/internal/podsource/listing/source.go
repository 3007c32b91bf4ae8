// Package listing notes how the listings of a daemon's pods go, for /healthz and the log. It
// decides nothing by them.
package listing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/podsource/kubernetes"
)

// UnhealthyAfter passes before /healthz tells of a failure that may end by itself.
const UnhealthyAfter = 30 * time.Second

// firstRetry is short: a pod is not ready, and its roll-out waits.
const firstRetry = time.Second

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
	// listed: the pods were known once. logged: the log has that they are not.
	listed, logged bool
	// since is the time of the first of the listings that have all failed, err what of that is to
	// be reported.
	since time.Time
	err   error
	// partial is why pods may have been missing in the last listing that did not fail.
	partial []pods.Problem
}

// errNotYet stands until the pods were known once. Nothing is forgiven before: a wrong
// address or socket would pass for an outage.
var errNotYet = errors.New("pods have not been listed yet")

// New returns a source of the pods of from.
func New(from PodSource, log *slog.Logger) *Source {
	return &Source{PodSource: from, log: log, err: errNotYet}
}

// AwaitFirst returns when the pods were known once, or ctx ends. A node on which nothing must go
// may be a minute without a listing: it lists until then.
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
		_, _ = l.Active(ctx) // Healthy has the error
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
		if s.Partial != nil {
			l.partial = []pods.Problem{{File: "container runtime", Err: s.Partial, Used: true}}
		}
	}
	l.note(cmp.Or(err, neverListed(s.Problems)), time.Now())
	s.Problems = append(s.Problems, l.partial...)
	return s, err
}

// neverListed returns why the API server has sent no pod yet.
func neverListed(problems []pods.Problem) error {
	for _, p := range problems {
		if !p.Used && errors.Is(p.Err, kubernetes.ErrNeverListed) {
			return p
		}
	}
	return nil
}

// note takes over why the pods are not known, if they are not.
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
		l.log.Error("pods cannot be listed, none can be evicted until they can", "since", l.since, "error", err)
		l.logged = true
	}
}

// Problems returns what is wrong with what the pods are known from.
func (l *Source) Problems() []pods.Problem {
	problems := l.PodSource.Problems()
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(problems, l.partial...)
}

// Healthy reports why pods cannot be listed, if that has been so for a while or from the start.
func (l *Source) Healthy() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
