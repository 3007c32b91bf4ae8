package main

import (
	"errors"
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

// getPrograms copies the programs from bin into a new directory: evictd does not trust every one.
func getPrograms(dir, bin string) (programs, error) {
	p := programs{evictd: filepath.Join(dir, "evictd"), pluginDir: filepath.Join(dir, "plugins")}
	errs := []error{
		os.MkdirAll(p.pluginDir, 0o755),
		evictd.Install(filepath.Join(bin, "evictd"), p.evictd),
	}
	for _, name := range []string{"memory", "disk", "pid"} {
		// A former build may have the plugins in another program.
		target, err := os.Readlink(filepath.Join(bin, "plugins", name))
		errs = append(errs, err, evictd.Install(filepath.Join(bin, "plugins", name), filepath.Join(p.pluginDir, target)), os.Symlink(target, p.plugin(name)))
	}
	return p, errors.Join(errs...)
}

// inGroup puts cmd into a new process group, so that Ctrl-C reaches only this process, and makes
// the kernel send SIGTERM to it when this process dies.
func inGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return cmd
}

// endTimeout limits the wait for a process that was asked to end.
const endTimeout = 10 * time.Second
