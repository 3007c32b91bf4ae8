package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/evictd/evictd/test/harness/child"
)

// A part is one program of the cluster, which can be stopped and started again.
type part struct {
	name string
	// command prepares the program; ready returns an error until it serves.
	command func() *exec.Cmd
	ready   func(context.Context) error
	log     string

	process *os.Process
	ended   chan struct{}
}

// start starts the program and waits until it serves.
func (p *part) start(ctx context.Context) error {
	if p.running() {
		return fmt.Errorf("start %s: it runs already", p.name)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = log, log
	if err := child.Start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.process, p.ended = cmd.Process, make(chan struct{})
	go func() { // ends with the program, which the stack kills at the latest
		_ = cmd.Wait() // its log tells how it ended
		close(p.ended)
	}()
	return p.await(ctx)
}

// await waits until the program serves.
func (p *part) await(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s has ended: %s", p.name, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w: %s", p.name, err, p.tail())
		case <-tick.C:
		}
	}
}

func (p *part) running() bool {
	if p.process == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// stop sends the signal and waits for the program to end.
func (p *part) stop(ctx context.Context, signal os.Signal) error {
	if !p.running() {
		return fmt.Errorf("stop %s: it does not run", p.name)
	}
	if err := p.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: it has not ended: %w", p.name, ctx.Err())
	}
}

// tail returns the end of the log, for an error message.
func (p *part) tail() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(raw[max(0, len(raw)-3000):]))
}
