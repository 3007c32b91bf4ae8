package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
)

// Options select the evictd to run and its configuration.
type Options struct {
	// Binary is the evictd binary.
	Binary string
	// Plugins are files to copy into the plugin directory.
	Plugins []string
	// Config is merged into the configuration for the stack; a nil value removes the key.
	Config map[string]any
	// OnRecord, if set, is called for each log record, in order, from one goroutine.
	OnRecord func(evictd.Record)
}

// Built returns Options with the evictd and the plugins that make build has put into bin.
func Built(bin string) (Options, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return Options{}, err
	}
	plugins, err := filepath.Glob(filepath.Join(bin, "plugins", "*"))
	if err == nil && len(plugins) == 0 {
		err = fmt.Errorf("%s/plugins is empty: run make build first", bin)
	}
	return Options{Binary: filepath.Join(bin, "evictd"), Plugins: plugins}, err
}

// Start copies the plugins, writes the configuration, starts evictd and waits until it is ready.
// The stack's Close kills what Stop leaves.
func Start(ctx context.Context, s *stack.Stack, o Options) (*evictd.Process, error) {
	file, err := Prepare(s, o)
	if err != nil {
		return nil, fmt.Errorf("prepare evictd: %w", err)
	}
	p, err := evictd.Start(evictd.Options{
		Binary: o.Binary, ConfigFile: file, OnRecord: o.OnRecord,
		Command: func(name string, args ...string) *exec.Cmd {
			// Not bound to ctx: evictd must shut down gracefully, by Stop.
			return s.Command(context.WithoutCancel(ctx), name, args...)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := p.Ready(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Reload changes keys in the configuration of the evictd that was started last and makes it
// reload the file. The result is in its log.
func Reload(s *stack.Stack, p *evictd.Process, change map[string]any) error {
	files, err := filepath.Glob(filepath.Join(s.Dir, "evictd-*", "evictd.yaml"))
	if err != nil {
		return err
	}
	var file string
	var newest time.Time
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.ModTime().After(newest) {
			file, newest = f, info.ModTime()
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reload evictd: %w", err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return fmt.Errorf("reload evictd: %s: %w", file, err)
	}
	maps.Copy(config, change)
	if _, err := evictd.Configure(filepath.Dir(file), config); err != nil {
		return err
	}
	return p.Signal(syscall.SIGHUP)
}

// Prepare writes evictd's files into a new directory without starting it, and returns the
// path of the configuration file.
func Prepare(s *stack.Stack, o Options) (string, error) {
	dir, err := os.MkdirTemp(s.Dir, "evictd-")
	if err != nil {
		return "", err
	}
	pluginDir := filepath.Join(dir, "plugins")
	if err := os.Mkdir(pluginDir, 0o755); err != nil {
		return "", err
	}
	for _, plugin := range o.Plugins {
		if err := evictd.Install(plugin, filepath.Join(pluginDir, filepath.Base(plugin))); err != nil {
			return "", err
		}
	}
	config := map[string]any{
		"pluginDir":       pluginDir,
		"podManifestDir":  s.ManifestDir,
		"runtimeEndpoint": "unix://" + s.Socket,
		"imageEndpoint":   "unix://" + s.Socket,
		"cgroupRoot":      s.CgroupRoot,
		"kubeletRootDir":  s.KubeletRootDir,
		"podLogsDir":      s.PodLogsDir,
	}
	maps.Copy(config, o.Config)
	maps.DeleteFunc(config, func(_ string, value any) bool { return value == nil })
	return evictd.Configure(dir, config)
}
