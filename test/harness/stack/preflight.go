package stack

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

//go:embed install.sh
var installScript string

// Preflight returns an error if a stack cannot run on this machine, apart from missing packages:
// it needs root and writable cgroups.
func Preflight() error {
	if os.Geteuid() != 0 {
		return errors.New("real containers need root: run this as root")
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	tracked, err := tracker(all)
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := unix.Access(h.mount, unix.W_OK); err != nil {
			return fmt.Errorf("real containers need to make cgroups, and %s is not writable: %w", h.mount, err)
		}
	}
	probe, err := os.MkdirTemp(tracked.mount, "evictd-probe-")
	if err != nil {
		return fmt.Errorf("real containers need to make cgroups: %w", err)
	}
	if err := os.Remove(probe); err != nil {
		return fmt.Errorf("remove probe cgroup %s: %w", filepath.Base(probe), err)
	}
	return nil
}

// Install installs the Debian packages that a stack and the hog need, if they
// are missing.
func Install(ctx context.Context, progress io.Writer) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", installScript, "install.sh")
	cmd.Stdout, cmd.Stderr = progress, progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("install packages: %w", err)
	}
	return nil
}
