package main

import (
	"context"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/replay"
)

// starter makes managers of package host, with plugin processes and a run
// directory of their own.
func (r *replayer) starter(runDir string) replay.Start {
	return func(ctx context.Context, parts replay.Parts) (replay.Manager, func(), error) {
		parts.Config.PluginDir, parts.Config.RunDir = r.pluginDir, runDir
		m, err := host.NewEmbedded(embedding(parts)) //nolint:contextcheck // closing what it could not use takes no context
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		stop := func() {
			cancel()
			if err := m.Wait(); err != nil {
				parts.Log.Warn("manager did not end well", "error", err)
			}
		}
		if err := m.Start(ctx, parts.DiskInfo, parts.ActivePods, parts.CleanedUp, 0); err != nil {
			stop()
			return nil, nil, err
		}
		return m, stop, nil
	}
}

func embedding(p replay.Parts) host.Embedding {
	e := host.Embedding{
		Config: p.Config, Version: version, Commit: commit, Log: p.Log,
		KillPod: p.KillPod, Recorder: p.Recorder, Clock: p.Clock, Summary: p.Summary, Explain: true,
		Patience: replay.Patience,
		Reclaim:  make(map[string]host.ReclaimFunc, len(p.Reclaim)),
	}
	for step, f := range p.Reclaim {
		e.Reclaim[step] = f
	}
	return e
}
