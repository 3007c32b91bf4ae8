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
	// The hog takes hogMiB against a threshold that is distanceMiB under what is
	// available before it starts.
	hogMiB, distanceMiB = 1536, 1024
	// hogRateMiB is the memory that it takes per second. Where a custom ranker may choose
	// another pod the hog must not take more than that pod has before it gets SIGTERM, or a
	// second pod would have to go: for the usual pods that is two seconds and a half.
	hogRateMiB, rankedHogRateMiB = 500, 100
	// termDelayMS is the time from a pod's SIGTERM to its end.
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

// check finds out early, in one sentence, what would fail later.
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

// checkCustom is about the files that the caller named, which make build does not
// make. With make -C a relative path is not what it was where it was typed.
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

// pluginConfig is the custom plugin's part of the configuration, by its name; empty
// if it gets none.
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

// builtFiles are those of make build: the plugin of the signal that the demo is
// about.
func (o options) builtFiles() []string { return []string{filepath.Join(o.plugins, "memory")} }

// pluginFiles are the plugins that evictd gets, the custom one among them.
func (o options) pluginFiles() []string {
	files := o.builtFiles()
	if o.custom != "" {
		files = append(files, o.custom)
	}
	return files
}

// examples are the pods that must go when the demo is played with one of this
// repository's examples.
var examples = map[string]string{"oldest": podNames[0], "cost-aware": podNames[1]}

// expected is the pod that must go: without a custom plugin the hog. Who goes first
// with one is for the plugin to say, and ok is false.
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
