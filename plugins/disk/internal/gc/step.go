package gc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// askTimeout limits a query to the runtime. It is shorter than the 30 s without progress after
	// which the host gives up on a step and the reason is lost.
	askTimeout = 10 * time.Second
	// shortTimeout replaces askTimeout for lateFor after a query without an answer.
	shortTimeout = time.Second
	lateFor      = time.Minute
	// removeTimeout limits a removal. A large layer on a slow disk takes long; the runtime
	// continues even without its caller.
	removeTimeout = time.Minute
	// heartbeat is the time between two calls of progress during a removal.
	heartbeat = 10 * time.Second
	// mostTimeouts in a row mean that the runtime hangs, not just one container.
	mostTimeouts = 2
	// mostErrors is the number of errors that are reported individually.
	mostErrors = 50
)

// errHangs ends a step early.
var errHangs = fmt.Errorf("gave up: the container runtime did not answer %d times in a row", mostTimeouts)

// A step is one run of container GC or image GC, with what it has reclaimed and its errors.
type step struct {
	client   *cri.Client
	root     nodefs.FS
	statfs   func(path string) (nodefs.FilesystemSample, error)
	progress func(eviction.Reclaimed)
	released eviction.Reclaimed
	rooms    []room
	notes    []string // for the message
	errs     []error
	more     int // errors beyond mostErrors
	// Removals and queries in a row that got no answer: a runtime that hangs in a removal may
	// still answer queries.
	stuck, silent int
	// late has the queries without an answer, of all steps.
	late lateQueries
}

// lateQueries has the times of queries without an answer, by the type of the request, and with ""
// that of the last one of any type, until another is answered. It is guarded by the turn of the
// Collector.
type lateQueries map[string]time.Time

// ask makes a query that the runtime answers at once. Each answer counts as progress: hundreds of
// queries to a slow runtime may take long.
func ask[Request, Reply any](ctx context.Context, s *step, call func(context.Context, Request, ...grpc.CallOption) (Reply, error), req Request) (Reply, error) {
	query, timeout := fmt.Sprintf("%T", req), askTimeout
	if time.Since(s.late[query]) < lateFor || time.Since(s.late[""]) < lateFor {
		timeout = shortTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reply, err := call(limited, req)
	s.silent++
	switch {
	case status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil:
		s.late[query], s.late[""] = time.Now(), time.Now()
	case status.Code(err) != codes.DeadlineExceeded:
		s.silent = 0
		delete(s.late, query)
		delete(s.late, "")
	}
	s.progress(s.released)
	return reply, err
}

// remove makes a call that removes something, which may take long. Meanwhile it reports
// progress to show that the step is alive.
func remove[Request, Reply any](ctx context.Context, s *step, call func(context.Context, Request, ...grpc.CallOption) (Reply, error), req Request) error {
	limited, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { // ends with limited at the latest
		_, err := hang.Try(func() (Reply, error) { return call(limited, req) })
		done <- err
	}()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			s.progress(s.released)
		case err := <-done:
			s.stuck++
			if err == nil || limited.Err() == nil {
				s.stuck = 0
			}
			return err
		}
	}
}

// free adds to the released amounts and reports progress.
func (s *step) free(bytes, inodes int64) {
	s.released = sum(s.released, eviction.Reclaimed{Bytes: bytes, Inodes: inodes})
	s.progress(s.released)
}

// fail records an error, unless it was recorded before, and reports progress.
func (s *step) fail(err error) {
	switch {
	case slices.ContainsFunc(s.errs, func(before error) bool { return before.Error() == err.Error() }):
	case len(s.errs) < mostErrors:
		s.errs = append(s.errs, err)
	default:
		s.more++
	}
	s.progress(s.released)
}

// over reports whether the step must end early.
func (s *step) over(ctx context.Context) bool { return ctx.Err() != nil || s.hangs() }

func (s *step) hangs() bool { return max(s.stuck, s.silent) >= mostTimeouts }

// note adds a count to the message unless it is 0.
func (s *step) note(n int, one, many string) {
	switch n {
	case 0:
	case 1:
		s.notes = append(s.notes, "1 "+one)
	default:
		s.notes = append(s.notes, fmt.Sprintf("%d %s", n, many))
	}
}

// problems returns all errors, joined.
func (s *step) problems(ctx context.Context) error {
	errs := s.errs
	if s.more > 0 {
		errs = append(errs, fmt.Errorf("%d more errors", s.more))
	}
	if s.hangs() {
		errs = append(errs, errHangs)
	}
	if err := ctx.Err(); err != nil {
		errs = append(errs, fmt.Errorf("ended early: %w", err))
	}
	return errors.Join(errs...)
}

// reported returns the reclaimed amounts, with all notes as the message.
func (s *step) reported() eviction.Reclaimed {
	s.released.Message = strings.Join(s.notes, ", ")
	return s.released
}

// gone reports whether the runtime has no such object.
func gone(err error) bool { return status.Code(err) == codes.NotFound }

// The runtime's figures may be arbitrarily large: these functions saturate at the limits of int64.

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func sum(a, b eviction.Reclaimed) eviction.Reclaimed {
	return eviction.Reclaimed{Bytes: figures.Add(a.Bytes, b.Bytes), Inodes: figures.Add(a.Inodes, b.Inodes)}
}
