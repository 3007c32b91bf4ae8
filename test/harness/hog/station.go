package hog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/evictd/evictd/test/harness/stack"
)

// A Station is the directory through which a hog in a container is started
// and observed: mount it with hostPath, and give --go DIR/go and --stamp DIR/stamps.
type Station struct{ Dir string }

// NewStation makes the directory and the pipe in it.
func NewStation(dir string) (Station, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Station{}, fmt.Errorf("make hog station: %w", err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		return Station{}, fmt.Errorf("make hog station: %w", err)
	}
	return Station{Dir: dir}, nil
}

// Stamps reads what the hog has stamped so far.
func (s Station) Stamps() (Stamps, error) { return ReadStamps(filepath.Join(s.Dir, "stamps")) }

// Release waits until the hog is ready to start, and starts it.
func (s Station) Release(ctx context.Context) error {
	for {
		// Opening for writing without blocking succeeds only if there is a reader.
		pipe, err := os.OpenFile(filepath.Join(s.Dir, "go"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			return pipe.Close()
		}
		if !errors.Is(err, syscall.ENXIO) {
			return fmt.Errorf("start hog: %w", err)
		}
		if err := stack.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("start hog: %w", err)
		}
	}
}

// WaitStamp waits for a stamp and returns it.
func (s Station) WaitStamp(ctx context.Context, word string) (int64, error) {
	for {
		at, err := s.Stamps()
		if err != nil || at[word] != 0 {
			return at[word], err
		}
		if err := stack.Pause(ctx, 2*time.Millisecond); err != nil {
			return 0, fmt.Errorf("wait until the hog stamps %q: %w", word, err)
		}
	}
}

// WarmUp takes and frees memory once, outside of any container: a virtual
// machine's first touch of a page is many times slower than the next.
func WarmUp(ctx context.Context, s *stack.Stack, program string, mib int) error {
	station := Station{Dir: s.Dir}
	cmd := s.Command(ctx, program, "--mib", fmt.Sprint(mib), "--stamp", filepath.Join(s.Dir, "stamps"))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("warm up memory: %w", err)
	}
	_, err := station.WaitStamp(ctx, "full")
	_ = cmd.Process.Signal(syscall.SIGTERM) // an error is an exit, seen by Wait
	if err := errors.Join(err, cmd.Wait(), os.Remove(filepath.Join(s.Dir, "stamps"))); err != nil {
		return fmt.Errorf("warm up memory: %w", err)
	}
	return nil
}
