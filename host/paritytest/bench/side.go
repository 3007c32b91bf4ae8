package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/evictd/evictd/host/paritytest/embedded"
	"github.com/evictd/evictd/host/paritytest/kubelet"
)

// The sides of the comparison. Each is a separate process, as in reality: neither collects the
// other's garbage.
const (
	sideKubelet = "kubelet"
	sideEvictd  = "evictd"
)

// pass makes one pass and returns its duration and the number of evicted pods.
type pass func(context.Context) (time.Duration, int, error)

// A side is the process of one manager and one scenario. It works only during its turns.
type side struct {
	cmd      *exec.Cmd
	ask      io.WriteCloser
	reported *json.Decoder
}

// A turn is a side's report of some passes.
type turn struct {
	Took []time.Duration
	// Measuring is the median time that evictd has waited for Measure so far.
	Measuring time.Duration
}

// start starts this program again as one side.
func start(ctx context.Context, name string, f family, pods int, plugins string) (*side, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &side{cmd: exec.CommandContext(ctx, program, "-side", name, "-family", f.name, "-pods", strconv.Itoa(pods), "-plugins", plugins)}
	s.cmd.Stderr = os.Stderr
	if s.ask, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.reported = json.NewDecoder(out)
	return s, s.cmd.Start()
}

// turn makes the side run passes for a while.
func (s *side) turn(budget time.Duration) (turn, error) {
	var t turn
	if _, err := fmt.Fprintln(s.ask, budget); err != nil {
		return t, err
	}
	return t, s.reported.Decode(&t)
}

// stop ends the side, which then ends its manager.
func (s *side) stop() error { return errors.Join(s.ask.Close(), s.cmd.Wait()) }

// serve runs a side: it takes a turn for each line read.
func serve(ctx context.Context, name string, f family, pods int, plugins string) (err error) {
	s, err := scenario(f, pods)
	if err != nil {
		return err
	}
	var next pass
	measuring := func() time.Duration { return 0 }
	switch name {
	case sideKubelet:
		k, err := kubelet.New()
		if err != nil {
			return err
		}
		timer, err := kubelet.NewTimer(k, s)
		if err != nil {
			return err
		}
		next = timer.Pass
	case sideEvictd:
		timer, err := embedded.NewTimer(ctx, s, plugins, true)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, timer.Stop()) }()
		next, measuring = timer.Pass, timer.Measuring
	default:
		return fmt.Errorf("side %q, want %s or %s", name, sideKubelet, sideEvictd)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		budget, err := time.ParseDuration(lines.Text())
		if err != nil {
			return err
		}
		took, err := passes(ctx, next, budget)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(turn{took, measuring()}); err != nil {
			return err
		}
	}
	return nil
}

// passes makes passes for a while, after one to warm up.
func passes(ctx context.Context, next pass, budget time.Duration) ([]time.Duration, error) {
	const least = 3
	runtime.GC()
	var all []time.Duration
	for end := time.Now().Add(budget); len(all) < 1+least || time.Now().Before(end); {
		took, evicted, err := next(ctx)
		if err != nil {
			return nil, err
		}
		if evicted != 1 {
			return nil, fmt.Errorf("%d pods went in a pass, want 1", evicted)
		}
		all = append(all, took)
	}
	return all[1:], nil
}
