package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/httpserver"
	"github.com/evictd/evictd/host/internal/node/rundir"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/shared/memlock"
	"github.com/evictd/evictd/shared/nodefs"
)

// tryRunDir reports what prevents the daemon from using the run directory.
func tryRunDir(_ context.Context, n *node, f *Findings) {
	if n.c.RunDir == "" {
		return
	}
	f.addAll(Fatal, rundir.Check(n.c.RunDir), supervisor.CheckSocketPath(rundir.PluginsOf(n.c.RunDir)))
	if err := writable(n.c.RunDir); err != nil {
		f.add(Fatal, "runDir: %q: %v; want a directory that evictd can write to", n.c.RunDir, err)
	}
}

// handover is the time in which a former evictd with another run directory may end.
const handover = 3 * time.Second

// tryStateDir also finds another evictd on this node, by the lock of its records.
func tryStateDir(ctx context.Context, n *node, f *Findings) {
	if n.c.StateDir == "" {
		return
	}
	if err := writable(config.RecordsDir(n.c.StateDir)); err != nil {
		f.add(Error, "stateDir: %q: %v: no record of a decision is kept; want a directory that evictd can write to, or \"\" to keep none", n.c.StateDir, err)
	}
	if n.Holder == nil || otherEvictd(n.c, n.Holder) == "" {
		return
	}
	wait, cancel := context.WithTimeout(ctx, handover)
	defer cancel()
	<-wait.Done()
	if other := otherEvictd(n.c, n.Holder); other != "" {
		f.add(Error, "stateDir: %q: is in use by another evictd, with runDir %q: both decide on the pods of this node; want one evictd on a node", n.c.StateDir, other)
	}
}

// otherEvictd returns the run directory of an evictd that writes records in the stateDir of c, empty if
// there is none. holder is that of Options.
func otherEvictd(c *config.Config, holder func(stateDir string) string) string {
	own, _ := rundir.ID(c.RunDir)
	id, dir, _ := strings.Cut(holder(c.StateDir), " ")
	if id == own {
		return ""
	}
	return dir
}

// writable returns why no file can be created in dir, or dir itself if it does not exist.
func writable(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if _, link := os.Lstat(dir); link == nil {
				return fmt.Errorf("%s is a link to nothing", dir)
			}
			dir = filepath.Dir(dir)
			continue
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is not a directory", dir)
		}
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("%s cannot be written to: %w", dir, err)
		}
		return nil
	}
}

// Healthz returns the options of the endpoint of /healthz.
func Healthz(c *config.Config, log *slog.Logger) httpserver.Options {
	return httpserver.Options{Key: "healthzBindAddress", Address: c.HealthzBindAddress, Log: log}
}

// Metrics returns the options of the endpoint of /metrics.
func Metrics(c *config.Config, log *slog.Logger) httpserver.Options {
	return httpserver.Options{
		Key: "metricsBindAddress", Address: c.MetricsBindAddress, TLS: true, CertFile: c.TLSCertFile, KeyFile: c.TLSPrivateKeyFile, NodeName: c.NodeName, Log: log,
	}
}

// tryListen listens briefly, unless a daemon uses the run directory and so the addresses.
func tryListen(ctx context.Context, n *node, f *Findings) {
	if n.c.RunDir != "" && rundir.InUse(n.c.RunDir) {
		f.addAll(Fatal, httpserver.CheckFiles(n.c.TLSCertFile, n.c.TLSPrivateKeyFile))
		return
	}
	quiet := slog.New(slog.DiscardHandler)
	var open []*httpserver.Endpoint // until all are: two may have one address
	for _, o := range []httpserver.Options{Healthz(n.c, quiet), Metrics(n.c, quiet)} {
		endpoint, err := httpserver.Listen(ctx, o)
		if errors.Is(err, unix.EADDRINUSE) {
			err = fmt.Errorf("%w; want a port of this node that nothing else listens on", err)
		}
		f.addAll(Fatal, err)
		open = append(open, endpoint)
	}
	for _, endpoint := range open {
		f.addAll(Fatal, endpoint.Close())
	}
}

// fewShares is half of a cgroup's default CPU shares: below it 2 ms of work took up to seconds on a
// node with busy CPUs (docs/operations.md).
const fewShares = 512

// tryCPU warns of a cgroup that gets too little CPU when the node is busy, which is when evictd is
// needed.
func tryCPU(_ context.Context, n *node, f *Findings) {
	share, err := nodefs.OwnCPUShare(n.fs)
	if err != nil || share.Shares >= fewShares { // in a shell it need not be known
		return
	}
	f.add(Warning, "%s: %d shares of the CPU, want %d at least: on a busy node decisions would wait for seconds; want a unit of its own, or a CPU request of 1", share.File, share.Shares, fewShares)
}

// tryLockedMemory warns of a process that may not keep its pages in memory.
func tryLockedMemory(_ context.Context, _ *node, f *Findings) {
	if err := memlock.Refused(); err != nil {
		f.add(Warning, "pages of evictd may not be locked in memory: %v; on a node that thrashes evictd waits for them, and the kernel's OOM killer is first", err)
	}
}
