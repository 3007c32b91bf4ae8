package main

import (
	"context"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/replay"
)

// withoutReclaim is why steps of plugins are not run.
const withoutReclaim = "reclaim frees things on this machine, allow it with --reclaim"

// starter makes managers of package host, with plugin processes and a run
// directory of their own.
func (r *replayer) starter(runDir string) replay.Start {
	skip := withoutReclaim
	if r.reclaim {
		skip = ""
	}
	return func(ctx context.Context, w *replay.World) (replay.Manager, func(), error) {
		w.Config.PluginDir, w.Config.RunDir = r.pluginDir, runDir
		m, err := host.NewEmbedded(host.Embedding{ //nolint:contextcheck // closing what it could not use takes no context
			Config: w.Config, Version: version, Commit: commit, Log: w.Log,
			KillPod: w.KillPod, Recorder: w, Clock: w, Summary: w.Summary, Reclaim: w.Reclaim(), SkipStepsBecause: skip,
			Explain: true, Patience: replay.Patience,
		})
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		stop := func() {
			cancel()
			if err := m.Wait(); err != nil {
				w.Log.Warn("manager did not end well", "error", err)
			}
		}
		if err := m.Start(ctx, w, w.ActivePods, w.CleanedUp, 0); err != nil {
			stop()
			return nil, nil, err
		}
		return m, stop, nil
	}
}
