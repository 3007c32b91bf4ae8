package gc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// askTimeout bounds a question to the runtime. The host gives up on a step
	// without progress after 30 s, and then the reason is lost.
	askTimeout = 10 * time.Second
	// removeTimeout bounds a removal. A large layer on a slow disk takes its time;
	// the runtime goes on without a caller.
	removeTimeout = time.Minute
	// heartbeat keeps the host waiting for a removal.
	heartbeat = 10 * time.Second
	// mostTimeouts in a row mean that the runtime hangs, and not one container.
	mostTimeouts = 2
	// mostErrors are reported one by one.
	mostErrors = 50
)

// errHangs ends a step early.
var errHangs = fmt.Errorf("gave up: the container runtime did not answer %d times in a row", mostTimeouts)

// A step is one run of container GC or image GC: what it reclaimed and what it could
// not.
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
	// Removals and questions without an answer, each in a row: a runtime that hangs
	// in removing may still answer questions.
	stuck, silent int
}

// ask calls the runtime for something that it answers at once. Each answer is a
// sign of life: a slow runtime may be asked about hundreds of containers.
func ask[Request, Reply any](ctx context.Context, s *step, call func(context.Context, Request, ...grpc.CallOption) (Reply, error), req Request) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	reply, err := call(ctx, req)
	s.silent++
	if status.Code(err) != codes.DeadlineExceeded {
		s.silent = 0
	}
	s.progress(s.released)
	return reply, err
}

// remove calls the runtime for a removal, which may take long, and tells the host
// meanwhile that the step is alive.
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

// free notes that something is gone.
func (s *step) free(bytes, inodes int64) {
	s.released = sum(s.released, eviction.Reclaimed{Bytes: bytes, Inodes: inodes})
	s.progress(s.released)
}

// fail notes an error. It is a sign of life as well.
func (s *step) fail(err error) {
	if len(s.errs) < mostErrors {
		s.errs = append(s.errs, err)
	} else {
		s.more++
	}
	s.progress(s.released)
}

// over reports whether it is of no use to go on.
func (s *step) over(ctx context.Context) bool { return ctx.Err() != nil || s.hangs() }

func (s *step) hangs() bool { return max(s.stuck, s.silent) >= mostTimeouts }

// note adds to the message what was counted, unless it is nothing.
func (s *step) note(n int, one, many string) {
	switch n {
	case 0:
	case 1:
		s.notes = append(s.notes, "1 "+one)
	default:
		s.notes = append(s.notes, fmt.Sprintf("%d %s", n, many))
	}
}

// problems joins what went wrong.
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

// reported returns the amounts that were reclaimed, with a message of all notes.
func (s *step) reported() eviction.Reclaimed {
	s.released.Message = strings.Join(s.notes, ", ")
	return s.released
}

// gone reports whether the runtime says that it does not have such a thing.
func gone(err error) bool { return status.Code(err) == codes.NotFound }
