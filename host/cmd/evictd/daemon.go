package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/grpclog"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/reload"
	"github.com/evictd/evictd/host/internal/ground/logbuffer"
	"github.com/evictd/evictd/host/internal/ground/systemd"
	"github.com/evictd/evictd/shared/memlock"
	"github.com/evictd/evictd/shared/nodefs"
)

// logLevel is the level of the daemon's log, which a reload may change.
var logLevel slog.LevelVar

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Watch this node and evict pods",
		Long: "Watch this node and evict pods until SIGTERM or SIGINT; a second one ends at once. SIGHUP reads the\n" +
			"configuration again and puts it in force whole or not at all, and so does a change of --config-map. The\n" +
			"log is JSON on standard error.",
		Args: cobra.NoArgs,
	}
	flags := config.AddFlags(cmd.Flags())
	configMap := cmd.Flags().String("config-map", "", "with mode kubernetes, NAMESPACE/NAME of a ConfigMap whose evictd.yaml is put in force when it changes")
	selector := cmd.Flags().String("config-map-selector", "", "labels that this ConfigMap has while it is for this process, such as app=evictd")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// First of all: an early SIGHUP must not kill the process.
		hups := make(chan os.Signal, 1)
		signal.Notify(hups, syscall.SIGHUP)
		defer signal.Stop(hups)

		cfg, err := flags.LoadDaemon()
		if err != nil {
			return err
		}
		from := reload.New(flags, hups, *configMap)
		followed, err := from.ConfigMap(*selector, cfg.Mode)
		if err != nil {
			return err
		}
		// With a handler a log without a reader is an ordinary error; without one SIGPIPE ends the
		// program, and ignoring it would be inherited by the plugins' programs.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		out := logbuffer.New(cmd.ErrOrStderr())
		defer out.Close() //nolint:errcheck // there is no place left to report it
		log := newLog(out, &cfg)
		ends := make(chan os.Signal, 2)
		signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
		defer signal.Stop(ends)
		ctx, stop := untilSignal(cmd.Context(), ends, log, func(code int) {
			_ = out.Close() // as above
			os.Exit(code)
		})
		defer stop()
		for _, w := range cfg.Warnings() {
			log.Warn("configuration", "warning", w)
		}
		o := host.Options{Config: cfg, Version: program.Version, Commit: program.Commit, Log: log, DroppedLogLines: out.Dropped, ConfigMap: followed}
		return command.Failed(run(ctx, o, from))
	}
	return cmd
}

// newLog creates the log, which also receives what libraries would write to standard error.
func newLog(to io.Writer, cfg *config.Config) *slog.Logger {
	logLevel.Set(cfg.Level())
	log := slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: &logLevel}))
	slog.SetDefault(log)
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, slog.NewLogLogger(log.Handler(), slog.LevelError).Writer()))
	return log
}

// untilSignal returns a context that the first of ends cancels; a second one exits. Call stop.
func untilSignal(parent context.Context, ends <-chan os.Signal, log *slog.Logger, exit func(int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	quit, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-ends:
			log.Info("ending", "signal", s.String())
			cancel()
		case <-quit:
			return
		}
		select {
		case s := <-ends:
			log.Error("second signal, ending immediately", "signal", s.String())
			exit(command.ExitFailure)
		case <-quit:
		}
	}()
	return ctx, func() {
		close(quit)
		<-watched
		cancel()
	}
}

// limitMemory has the garbage collector work harder before evictd reaches its cgroup's limit, from
// which the plugins and the text of all take a part. In a pod, which may not see its cgroup,
// EVICTD_MEMORY_LIMIT has the limit in bytes. The variable GOMEMLIMIT has priority.
func limitMemory(log *slog.Logger) {
	limit, err := strconv.ParseInt(os.Getenv("EVICTD_MEMORY_LIMIT"), 10, 64)
	if err != nil || limit < 0 {
		limit = nodefs.OwnMemoryLimit()
	}
	if limit == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(limit / 5 * 2)
	log.Debug("memory limit of the garbage collector set", "bytes", limit/5*2, "cgroupBytes", limit)
}

// run runs the daemon: it makes a manager of o and runs it until ctx ends. What comes of
// from changes the configuration completely or not at all.
func run(ctx context.Context, o host.Options, from *reload.Sources) error {
	log := o.Log
	if os.Getenv("GOGC") == "" {
		memlock.Settle(25, 50) // a start makes much garbage; for a choice of a pod the host has the heap grow
	}
	// Before all else: under pressure the kernel takes back what the start has read so far.
	if err := memlock.All(); err != nil {
		log.Warn("pages of evictd not locked in memory, it may be too late on a node that thrashes", "error", err)
	}
	limitMemory(log)
	manager := systemd.NewManager(log)
	if manager != nil {
		o.Alive, o.AliveEvery = manager.Alive, manager.Every
	}
	m, err := host.New(ctx, o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	if manager != nil {
		defer context.AfterFunc(ctx, manager.Stopping)()
		beside.Go(func() { manager.Watch(ctx) })
	}
	beside.Go(func() {
		from.Follow(ctx, o.Config, func(load func() (config.Config, error)) (config.Config, error) {
			cfg, err := m.ReloadFrom(ctx, load)
			if err == nil {
				logLevel.Set(cfg.Level())
			}
			return cfg, err
		}, log)
	})
	err = m.Run(ctx)
	stop()
	beside.Wait()
	return err
}
