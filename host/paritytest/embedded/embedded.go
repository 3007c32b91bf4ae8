// Package embedded runs a scenario through evictd as a program sees it that
// embeds it: package host, with the plugins' own code in this process.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/replay"
	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/shared/eviction"
)

// Replay takes evictd through s.
func Replay(ctx context.Context, s *replay.Scenario, log *slog.Logger) (*replay.Replay, error) {
	return replay.Run(ctx, s, log, start)
}

func start(ctx context.Context, parts replay.Parts) (_ replay.Manager, _ func(), err error) {
	dir, err := os.MkdirTemp("", "evictd-")
	if err != nil {
		return nil, nil, err
	}
	parts.Config.RunDir = dir
	m, err := host.NewEmbedded(embedding(parts))
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := func() {
		cancel()
		if err := errors.Join(m.Wait(), os.RemoveAll(dir)); err != nil {
			parts.Log.Error("the manager did not end well", "error", err)
		}
	}
	if err := m.Start(ctx, parts.DiskInfo, parts.ActivePods, parts.CleanedUp, 0); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start: %w", err)
	}
	return m, stop, nil
}

func embedding(p replay.Parts) host.Embedding {
	e := host.Embedding{
		Config: p.Config, Version: "parity", Log: p.Log,
		KillPod: p.KillPod, Recorder: p.Recorder, Clock: p.Clock, Summary: p.Summary,
		Reclaim: make(map[string]host.ReclaimFunc, len(p.Reclaim)),
		Plugins: map[string]eviction.Plugin{"memory": memory.New(), "disk": disk.New(), "pid": pid.New()},
	}
	for step, f := range p.Reclaim {
		e.Reclaim[step] = f
	}
	return e
}
