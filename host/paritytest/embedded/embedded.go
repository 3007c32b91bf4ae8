// Package embedded runs a scenario through an embedded evictd: package host, with the plugins' own
// code in this process.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/shared/eviction"
)

// Replay runs s through evictd.
func Replay(ctx context.Context, s *replay.Scenario, log *slog.Logger, variants ...Variant) (*replay.Replay, error) {
	setup := &Setup{Plugins: map[string]eviction.Plugin{"memory": memory.New(), "disk": disk.New(), "pid": pid.New()}}
	for _, v := range variants {
		v(setup)
	}
	setup.step.Store(-1)
	return replay.Run(ctx, s, log, setup.start)
}

func (s *Setup) start(ctx context.Context, w *replay.World) (_ replay.Manager, _ func(), err error) {
	dir, err := os.MkdirTemp("", "evictd-")
	if err != nil {
		return nil, nil, err
	}
	w.Config.RunDir, w.Config.PluginDir = dir, ""
	if len(s.Hard) > 0 {
		hard := maps.Clone(s.Hard)
		maps.Copy(hard, w.Config.EvictionHard)
		w.Config.EvictionHard = hard
	}
	m, err := host.NewEmbedded(s.embedding(w))
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := func() {
		cancel()
		if err := errors.Join(m.Wait(), os.RemoveAll(dir)); err != nil {
			w.Log.Error("the manager ended with an error", "error", err)
		}
	}
	if err := m.Start(ctx, w, w.ActivePods, w.CleanedUp, 0); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start: %w", err)
	}
	return counted{m, s}, stop, nil
}

func (s *Setup) embedding(w *replay.World) host.Embedding {
	return host.Embedding{
		Config: w.Config, Version: "parity", Log: w.Log,
		KillPod: w.KillPod, Recorder: w, Clock: w, Summary: w.Summary, Reclaim: w.Reclaim(), Explain: true,
		Simulated: true,
		Plugins:   s.Plugins, WrapSummary: s.Summary,
	}
}

// counted tracks the scenario's step for a Setup.
type counted struct {
	replay.Manager

	setup *Setup
}

func (c counted) Synchronize(ctx context.Context) (loop.PassResult, error) {
	c.setup.step.Add(1)
	return c.Manager.Synchronize(ctx)
}
