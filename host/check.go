package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/shared/eviction"
)

// Check looks at the plugins, the manifests and the directories that c names, with
// the checks that a manager makes itself, and starts nothing. The errors are what a
// manager or one of its plugins would not start for, the warnings what it runs
// without.
func Check(c *Config) (errs []error, warnings []string) {
	errs, warnings = supervisor.Check(supervisor.Options{Dir: c.PluginDir, Settings: pluginSettings(c), Assign: assignment(c)})
	if err := isDir(filepath.Join(c.RootDir, c.KubeletRootDir)); err != nil {
		warnings = append(warnings, fmt.Sprintf("kubeletRootDir: %q: %v, want the directory of the pods' directories: nodefs is its filesystem, and without it no disk signal is observed", c.KubeletRootDir, err))
	}
	return errs, append(warnings, checkManifests(c)...)
}

// TryPlugins starts the plugins that have a configuration of their own, confined as
// a manager would, tells them the configuration and ends them. The errors are of
// those that do not start with it. With a summary as source they are told of no
// socket, as there is none yet.
func TryPlugins(ctx context.Context, c *Config, version string) []error {
	driver := cgroupsOf(c).Find(ctx).InUse(c.CgroupDriver)
	return supervisor.Try(ctx, supervisor.Options{
		Dir: c.PluginDir, Host: eviction.Host{Version: version}, Node: nodeFacts(c, driver, ""), Settings: pluginSettings(c),
		Log: slog.New(slog.DiscardHandler),
	})
}

func checkManifests(c *Config) []string {
	if err := isDir(c.PodManifestDir); err != nil {
		return []string{fmt.Sprintf("podManifestDir: %q: %v, want a directory of v1.Pod manifests, as a pod without one is never evicted", c.PodManifestDir, err)}
	}
	var warnings []string
	for _, p := range modes[c.Mode].pods(c, nil).Problems() {
		warnings = append(warnings, "pod manifest "+p.Error())
	}
	return warnings
}

func isDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("does not exist")
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("is not a directory")
	}
	return nil
}
