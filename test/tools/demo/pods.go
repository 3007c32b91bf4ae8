package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
)

const hogName = "hog"

// podNames are the default pods in the order of their start: the hog is the youngest.
var podNames = []string{"reserved", "steady", hogName}

// The manifests are like a user's. All pods run the same program, so that any of them stamps its
// SIGTERM.
//
//go:embed pods.yaml
var usual string

// manifests returns the user's pods, or the default ones. The user's may be other and more pods,
// with annotations, labels and priorities, but one must be named like the hog.
func (o options) manifests() (string, error) {
	if o.pods == "" {
		return usual, nil
	}
	own, err := os.ReadFile(o.pods)
	if err == nil && !strings.Contains(string(own), "name: "+hogName+",") && !strings.Contains(string(own), "name: "+hogName+"\n") {
		err = fmt.Errorf("%s: no pod is named %s, want the one that takes the memory: begin with test/tools/demo/pods.yaml", o.pods, hogName)
	}
	return string(own), err
}

// startPods starts the pods over a second apart, since pod start times count in seconds.
func (s *story) startPods(ctx context.Context) error {
	var text strings.Builder
	manifests, err := s.options.manifests()
	if err != nil {
		return err
	}
	values := map[string]any{"Image": hog.Image, "Stamps": s.stampDir(), "HogMiB": hogMiB, "HogRate": s.hogRate(), "TermDelayMS": termDelayMS}
	if err := template.Must(template.New("pods").Parse(manifests)).Execute(&text, values); err != nil {
		return fmt.Errorf("write pod manifests: %w", err)
	}
	s.pods, s.stations = map[string]*stack.Pod{}, map[string]hog.Station{}
	for i, document := range strings.Split(text.String(), "\n---\n") {
		if i > 0 {
			if err := stack.Pause(ctx, 1100*time.Millisecond); err != nil {
				return err
			}
		}
		manifest, err := stack.ReadManifest([]byte(document))
		if err != nil {
			return err
		}
		if s.stations[manifest.Name], err = hog.NewStation(filepath.Join(s.stampDir(), manifest.Name)); err != nil {
			return err
		}
		pod, err := s.stack.RunPod(ctx, manifest)
		if err != nil {
			return err
		}
		s.pods[pod.Name] = pod
		s.names = append(s.names, pod.Name)
		s.show.line("pod", "%-13s %s", pod.Key(), manifest.Annotations["demo/is"])
	}
	return nil
}

func (s *story) stampDir() string { return filepath.Join(s.stack.Dir, "stamps") }

// letGo makes the hog release its memory: if another pod is the victim, nothing else ends the
// pressure.
func (s *story) letGo() error {
	for _, pid := range s.pods[hogName].ContainerProcesses("main") {
		if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
			return fmt.Errorf("tell the hog to let go: %w", err)
		}
	}
	return nil
}
