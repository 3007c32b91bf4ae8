package main

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/stack/crossing"
)

const (
	mib = 1 << 20
	// The hog takes hogMiB at hogRate MiB/s, against a threshold that is
	// distanceMiB under what is available at the start.
	hogMiB, distanceMiB, hogRate = 1536, 1024, 500
	// termDelayMS is how long a pod lives on after its SIGTERM.
	termDelayMS = 700
)

type options struct {
	evictd, plugins, custom string
	verbose                 bool
}

// check finds out early, in one sentence, what would fail later.
func (o options) check() error {
	for _, file := range append([]string{o.evictd}, o.pluginFiles()...) {
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

// pluginFiles are the plugin of the signal that the demo is about, and the custom
// one.
func (o options) pluginFiles() []string {
	files := []string{filepath.Join(o.plugins, "memory")}
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
	if o.custom == "" {
		return hogName, true
	}
	pod, ok = examples[filepath.Base(o.custom)]
	return pod, ok
}
