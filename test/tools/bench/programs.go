package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
)

// programs holds the paths of the programs to measure, in their release form.
type programs struct {
	evictd string
	// pluginDir has all plugins that come with evictd.
	pluginDir string
}

func (p programs) plugin(name string) string { return filepath.Join(p.pluginDir, name) }

// getPrograms copies the programs from bin into dir, or builds them there if bin is empty. It
// copies, since evictd does not trust every directory.
func getPrograms(ctx context.Context, dir, bin string) (programs, error) {
	p := programs{evictd: filepath.Join(dir, "evictd"), pluginDir: filepath.Join(dir, "plugins")}
	if err := os.Mkdir(p.pluginDir, 0o755); err != nil {
		return p, err
	}
	get := func(out, built, pkg string) error {
		if bin == "" {
			return build(ctx, out, pkg)
		}
		return evictd.Install(filepath.Join(bin, built), out)
	}
	errs := []error{get(p.evictd, "evictd", "host/cmd/evictd"), get(filepath.Join(dir, "builtin"), "builtin", "plugins/builtin")}
	for _, name := range []string{"memory", "disk", "pid"} {
		errs = append(errs, os.Symlink("../builtin", p.plugin(name)))
	}
	return p, errors.Join(errs...)
}

func build(ctx context.Context, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", out, "github.com/evictd/evictd/"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, msg)
	}
	return nil
}

// inGroup puts cmd into a new process group, so that Ctrl-C reaches only this process, and makes
// the kernel send SIGTERM to it when this process dies.
func inGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return cmd
}

// endTimeout limits the wait for a process that was asked to end.
const endTimeout = 10 * time.Second
