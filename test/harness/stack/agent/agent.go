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

// Options say which evictd runs and how.
type Options struct {
	// Binary is the evictd binary.
	Binary string
	// Plugins are files that are copied into the plugin directory.
	Plugins []string
	// Config is merged into the configuration that fits the stack; a nil takes a key of
	// that away.
	Config map[string]any
	// OnRecord, if set, is called for each log record, in order, from one goroutine.
	OnRecord func(evictd.Record)
}

// Built returns Options with the evictd and the plugins of a directory that make build made.
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

// Start copies the plugins, writes the configuration, starts evictd and waits
// until it is ready. The stack's Close ends whatever Stop does not.
func Start(ctx context.Context, s *stack.Stack, o Options) (*evictd.Process, error) {
	file, err := Prepare(s, o)
	if err != nil {
		return nil, fmt.Errorf("prepare evictd: %w", err)
	}
	p, err := evictd.Start(evictd.Options{
		Binary: o.Binary, ConfigFile: file, OnRecord: o.OnRecord,
		Command: func(name string, args ...string) *exec.Cmd {
			// Not bound to ctx: evictd is to end in order, by Stop.
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

// Reload changes keys of the configuration of the evictd that was started last and
// tells it to read it again. What came of that is in its log.
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

// Prepare makes evictd's files in a directory of its own, for whoever starts it, and returns
// the configuration file's path.
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
