package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/harness/stack/crossing"
)

const (
	mib = 1 << 20
	// The hog takes hogMiB; the threshold is distanceMiB below what is available before it starts.
	hogMiB, distanceMiB = 1536, 1024
	// hogRateMiB is the memory that it takes per second. It is lower with a custom ranker, which
	// may choose another pod: until that gets SIGTERM, the hog must not take more than that pod
	// uses, or a second pod is evicted. The default pods last for two and a half seconds.
	hogRateMiB, rankedHogRateMiB = 500, 100
	// termDelayMS is the time between a pod's SIGTERM and its end.
	termDelayMS = 700
)

type options struct {
	evictd, plugins, custom, config, pods string
	verbose, keep                         bool
}

func (o options) hogRate() int {
	if o.custom != "" {
		return rankedHogRateMiB
	}
	return hogRateMiB
}

// check detects early what would fail later.
func (o options) check() error {
	if err := o.checkCustom(); err != nil {
		return err
	}
	for _, file := range append([]string{o.evictd}, o.builtFiles()...) {
		if err := unix.Access(file, unix.X_OK); err != nil {
			return fmt.Errorf("%s cannot be executed (%w): run make build first", file, err)
		}
	}
	available, err := crossing.Available()
	if err != nil {
		return fmt.Errorf("read memory.available: %w", err)
	}
	if available < 2*hogMiB*mib {
		return fmt.Errorf("the demo needs %d MiB of memory, and %d MiB are available", 2*hogMiB, available/mib)
	}
	return nil
}

// checkCustom checks the files that the user named, which make build does not make. With make -C
// a relative path is no longer relative to the user's directory.
func (o options) checkCustom() error {
	if o.pods != "" {
		if err := present(o.pods); err != nil {
			return err
		}
	}
	if o.custom == "" {
		if o.config != "" {
			return errors.New("a configuration (DEMO_CONFIG), but no plugin that it is for (DEMO_PLUGIN)")
		}
		return nil
	}
	if err := present(o.custom); err != nil {
		return err
	}
	if err := unix.Access(o.custom, unix.X_OK); err != nil {
		return fmt.Errorf("%s cannot be executed (%w)", o.custom, err)
	}
	_, err := o.pluginConfig()
	return err
}

func present(file string) error {
	stat, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(file):
		dir, _ := os.Getwd() // for the message only
		return fmt.Errorf("there is no %s in %s: want its absolute path", file, dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no %s", file)
	case err != nil:
		return err
	case !stat.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", file)
	default:
		return nil
	}
}

// pluginConfig returns the custom plugin's configuration by its name; empty if it has none.
func (o options) pluginConfig() (map[string]any, error) {
	if o.config == "" {
		return map[string]any{}, nil
	}
	if err := present(o.config); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(o.config)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.UnmarshalStrict(raw, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", o.config, err)
	}
	return map[string]any{filepath.Base(o.custom): map[string]any{"config": config}}, nil
}

// builtFiles returns the plugins from make build: that of the demo's signal.
func (o options) builtFiles() []string { return []string{filepath.Join(o.plugins, "memory")} }

// pluginFiles returns the plugins that evictd gets, including the custom one.
func (o options) pluginFiles() []string {
	files := o.builtFiles()
	if o.custom != "" {
		files = append(files, o.custom)
	}
	return files
}

// examples has the pod that must be evicted with each of this repository's example plugins.
var examples = map[string]string{"oldest": podNames[0], "cost-aware": podNames[1]}

// expected returns the pod that must be evicted: without a custom plugin the hog. With one, the
// plugin decides, and ok is false unless it is a known example.
func (o options) expected() (pod string, ok bool) {
	if o.pods != "" {
		return "", false
	}
	if o.custom == "" {
		return hogName, true
	}
	pod, ok = examples[filepath.Base(o.custom)]
	return pod, ok
}
