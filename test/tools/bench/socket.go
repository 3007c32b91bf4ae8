package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/wire"
	"github.com/evictd/evictd/test/harness/child"
)

// attachPlugin starts a plugin that listens on a socket in dir, as a pod would, and connects to it. The caller must call stop.
func attachPlugin(ctx context.Context, path, dir string) (p eviction.Plugin, stop func() error, err error) {
	if dir, err = os.MkdirTemp(dir, "s"); err != nil {
		return p, nil, err
	}
	socket := filepath.Join(dir, "p.sock")
	cmd := exec.Command(path)
	cmd.Env = []string{"EVICTD_PLUGIN_SOCKET=" + socket}
	if err := child.Start(cmd); err != nil {
		return p, nil, errors.Join(err, os.RemoveAll(dir))
	}
	end := func() error {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		return os.RemoveAll(dir)
	}
	inTime, cancel := context.WithTimeout(ctx, eviction.HandshakeDeadline)
	defer cancel()
	var peer *launch.Peer
	for peer == nil && inTime.Err() == nil {
		if peer, err = launch.Attach(inTime, socket, func(unix.Ucred) error { return nil }); err != nil {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if err == nil {
		p, err = wire.NewClient(peer).Describe(ctx, hostInfo)
	}
	if err != nil {
		return p, nil, errors.Join(fmt.Errorf("connect to %s: %w", path, err), end())
	}
	return p, func() error { return errors.Join(peer.Close(), end()) }, nil
}

// decide returns the calls to a plugin that precede an eviction, with n pods.
func decide(p *eviction.Plugin, n int) operation {
	observe := eviction.ObserveRequest{PassView: eviction.PassView{View: eviction.ViewBefore}, Signals: memorySignals}
	measure, rank := measureRequest(n), rankRequest(n)
	return func(ctx context.Context) error {
		observe.Pass++
		measure.Pass, rank.Pass = observe.Pass, observe.Pass
		if _, err := p.Observer.Observe(ctx, observe); err != nil {
			return fmt.Errorf("observe: %w", err)
		}
		if err := measureAll(ctx, p.Measurer, measure, func(eviction.Measurement) {}); err != nil {
			return err
		}
		return rankAll(ctx, p.Ranker, rank)
	}
}

// socketTrip measures a decision by a plugin on a socket beside one by a child.
func socketTrip(ctx context.Context, attached, started *eviction.Plugin, n int, budget time.Duration) (row, error) {
	c, err := compare(ctx, budget, decide(attached, n), decide(started, n))
	return c.row("Observe, Measure and Rank on a socket", n, "the same of a child"), err
}
