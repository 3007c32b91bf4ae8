package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/config"
)

// dialTimeout is for a local socket, which answers at once or not at all.
const dialTimeout = 2 * time.Second

// checkNode reports what cfg names and this node does not have.
func checkNode(ctx context.Context, cfg *config.Config) (errs []error, warnings []string) {
	add := func(field, value string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q: %w", field, value, err))
		}
	}
	add("pluginDir", cfg.PluginDir, checkPluginDir(cfg.PluginDir))
	add("runtimeEndpoint", cfg.RuntimeEndpoint, checkSocket(ctx, cfg.RuntimeEndpoint))
	if cfg.ImageEndpoint != cfg.RuntimeEndpoint {
		add("imageEndpoint", cfg.ImageEndpoint, checkSocket(ctx, cfg.ImageEndpoint))
	}
	if err := host.CheckCgroups(ctx, cfg); err != nil {
		errs = append(errs, err)
	}
	refused, warnings := host.Check(cfg)
	if checkDir(cfg.PluginDir, "") == nil { // else it was reported
		errs = append(errs, refused...)
	}
	return errs, warnings
}

func checkDir(dir, of string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("does not exist, want a directory of %s", of)
	case err != nil:
		return fmt.Errorf("%w, want a directory of %s", err, of)
	case !info.IsDir():
		return fmt.Errorf("is not a directory, want one of %s", of)
	}
	return nil
}

func checkPluginDir(dir string) error {
	const of = "plugin executables"
	if err := checkDir(dir, of); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%w, want a directory of %s", err, of)
	}
	for _, e := range entries {
		if info, err := os.Stat(dir + "/" + e.Name()); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 &&
			!strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), ".tmp") {
			return nil
		}
	}
	return errors.New("has no executable in it, want at least one plugin, else no signal is observed")
}

func checkSocket(ctx context.Context, endpoint string) error {
	const want = "want the socket of a running container runtime, such as unix:///run/containerd/containerd.sock"
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	path := strings.TrimPrefix(endpoint, "unix://")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("does not exist, is the runtime running? %s", want)
	case err == nil && info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("is not a socket, %s", want)
	case err != nil:
		return fmt.Errorf("%w, %s", err, want)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("nobody answers (%w), %s", err, want)
	}
	return conn.Close()
}
