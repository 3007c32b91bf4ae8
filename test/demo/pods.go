package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/evictd/evictd/test/hog"
	"github.com/evictd/evictd/test/stack"
)

const hogName = "hog"

// podNames are in the order in which the pods start: the hog is the youngest.
var podNames = []string{"reserved", "steady", hogName}

// The manifests are what a user would write. All three run the same program, so
// that whoever gets SIGTERM stamps it.
//
//go:embed pods.yaml
var manifests string

// startPods starts the pods a good second apart: pod start times count in seconds.
func (s *story) startPods(ctx context.Context) error {
	var text strings.Builder
	values := map[string]any{"Image": hog.Image, "Stamps": s.stampDir(), "HogMiB": hogMiB, "HogRate": hogRate, "TermDelayMS": termDelayMS}
	if err := template.Must(template.New("pods").Parse(manifests)).Execute(&text, values); err != nil {
		return fmt.Errorf("write pod manifests: %w", err)
	}
	s.pods = map[string]*stack.Pod{}
	for i, document := range strings.Split(text.String(), "\n---\n") {
		if i > 0 {
			if err := sleep(ctx, 1100*time.Millisecond); err != nil {
				return err
			}
		}
		manifest, err := stack.ReadManifest([]byte(document))
		if err != nil {
			return err
		}
		if err := s.makeStampDir(manifest.Name); err != nil {
			return err
		}
		pod, err := s.stack.RunPod(ctx, manifest)
		if err != nil {
			return err
		}
		s.pods[pod.Name] = pod
		s.show.line("pod", "%-13s %s", pod.Key(), manifest.Annotations["demo/is"])
	}
	return nil
}

func (s *story) stampDir() string { return filepath.Join(s.stack.Dir, "stamps") }

// makeStampDir makes the directory that the pod sees as /stamps, with the pipe
// that tells it to go.
func (s *story) makeStampDir(name string) error {
	dir := filepath.Join(s.stampDir(), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make stamp directory: %w", err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		return fmt.Errorf("make start pipe: %w", err)
	}
	return nil
}

// stamps reads what the main process of the pod wrote down.
func (s *story) stamps(name string) (hog.Stamps, error) {
	return hog.ReadStamps(filepath.Join(s.stampDir(), name, "stamps"))
}

// release lets the hog start. Opening for write without blocking works only
// once it waits.
func (s *story) release(ctx context.Context) error {
	for {
		pipe, err := os.OpenFile(filepath.Join(s.stampDir(), hogName, "go"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			return pipe.Close()
		}
		if !errors.Is(err, syscall.ENXIO) {
			return fmt.Errorf("tell the hog to start: %w", err)
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// letGo makes the hog give its memory back: without the hog as victim nothing
// else would end the pressure.
func (s *story) letGo() error {
	for _, pid := range s.pods[hogName].ContainerProcesses("main") {
		if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
			return fmt.Errorf("tell the hog to let go: %w", err)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
