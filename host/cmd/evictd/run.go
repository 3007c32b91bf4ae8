package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/config"
)

// run is the daemon: it makes a manager of cfg and runs it until ctx ends. Each
// value of hups has the configuration read again and put in force, whole or not
// at all.
func run(ctx context.Context, cfg config.Config, hups <-chan os.Signal, reload func() (config.Config, error), log *slog.Logger, dropped func() uint64) error {
	m, err := host.New(host.Options{Config: cfg, Version: version, Commit: commit, Log: log, DroppedLogLines: dropped}) //nolint:contextcheck // closing what it could not use takes no context
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	reloading := make(chan struct{})
	go func() {
		defer close(reloading)
		followReloads(ctx, m, hups, reload, log)
	}()
	err = m.Run(ctx)
	stop()
	<-reloading
	return err
}

func followReloads(ctx context.Context, m *host.Manager, hups <-chan os.Signal, reload func() (config.Config, error), log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hups:
		}
		cfg, err := m.ReloadFrom(ctx, reload)
		switch {
		case errors.Is(err, context.Canceled):
		case err != nil:
			log.Error("new configuration refused, the former one stays in force", "error", err)
		default:
			logLevel.Set(cfg.Level())
			log.Info("new configuration in force")
		}
	}
}
