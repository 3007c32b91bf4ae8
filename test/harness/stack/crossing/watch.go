package crossing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"time"

	"github.com/evictd/evictd/test/harness/stack"
)

// A Sample is one reading of the available memory.
type Sample struct {
	// At is CLOCK_MONOTONIC in nanoseconds.
	At             int64
	AvailableBytes int64
	// Crossed marks the first sample below the armed threshold. The crossing happened within
	// Gap before At, the time since the previous sample.
	Crossed bool
	Gap     time.Duration
}

// A Watch is a running sampler process.
type Watch struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	samples chan Sample
}

// Start starts the sampler, a second process of this program, in the stack, for Node or Pods. The
// caller must read Samples until it is closed, and call Stop.
func Start(ctx context.Context, s *stack.Stack, group string) (*Watch, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start sampler: %w", err)
	}
	w := &Watch{cmd: s.Command(ctx, self), samples: make(chan Sample, 64)}
	w.cmd.Env = append(os.Environ(), childEnv+"="+group)
	w.cmd.Stderr = os.Stderr
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start sampler: %w", err)
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start sampler: %w", err)
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start sampler: %w", err)
	}
	go func() { // ends with the sampler, which Stop waits for
		defer close(w.samples)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			var kind string
			var sample Sample
			n, _ := fmt.Sscan(in.Text(), &kind, &sample.At, &sample.AvailableBytes, &sample.Gap)
			if sample.Crossed = kind == "x"; n >= 3 {
				w.samples <- sample
			}
		}
	}()
	return w, nil
}

// Samples returns the readings: each crossing, and one sample every 100 ms.
func (w *Watch) Samples() <-chan Sample { return w.samples }

// Lowest reads the samples of the next d and returns the lowest available memory, in bytes.
func (w *Watch) Lowest(ctx context.Context, d time.Duration) (int64, error) {
	lowest, from := int64(math.MaxInt64), Now()
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case sample, ok := <-w.samples:
			switch {
			case !ok:
				return 0, errors.New("the sampler died")
			case sample.At < from:
			case sample.At > from+int64(d):
				return min(lowest, sample.AvailableBytes), nil
			default:
				lowest = min(lowest, sample.AvailableBytes)
			}
		}
	}
}

// Arm reports the next sample below the threshold as a crossing, once.
func (w *Watch) Arm(thresholdBytes int64) error {
	if _, err := fmt.Fprintln(w.stdin, thresholdBytes); err != nil {
		return fmt.Errorf("arm sampler: %w", err)
	}
	return nil
}

// Stop ends the sampler and waits until it has ended.
func (w *Watch) Stop() error {
	_ = w.stdin.Close() // its end is the sign to leave
	for range w.samples {
		continue
	}
	return w.cmd.Wait()
}
