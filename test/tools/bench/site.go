package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
)

// farAway are thresholds of all three plugins that are never met here.
var farAway = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "1Mi", "nodefs.inodesFree": "10", "imagefs.available": "1Mi", "imagefs.inodesFree": "10", "pid.available": "10",
}

// A site is a node with pods for evictd to manage: cgroups, manifests and a runtime without
// containers behind its pods, on the machine's real memory.
type site struct {
	b   *bench
	dir string
	// runDir is on a filesystem in memory, like /run on nodes.
	runDir  string
	cgroups *cgroups
	runtime *fakecri.Server
	// api is the source of pods, nil if that is manifests only.
	api *apiServer
}

// newSite makes a site; the cgroup of all pods is limited to limitBytes.
func newSite(b *bench, pods int, limitBytes int64) (_ *site, err error) {
	s := &site{b: b, runtime: fakecri.New()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp(b.dir, "site-"); err != nil {
		return nil, err
	}
	if s.runDir, err = os.MkdirTemp(s.b.memory, "run-"); err != nil {
		return nil, err
	}
	if err := writeManifests(s.manifests(), pods); err != nil {
		return nil, err
	}
	s.runtime.SetImageDir(s.dir)
	for i := range pods {
		s.runtime.Add(runtimePod(i))
		dirs := []string{filepath.Join(s.dir, "pods", podUID(i)), filepath.Join(s.podLogs(), namespace+"_"+podName(i)+"_"+podUID(i))}
		for _, dir := range dirs { // as the kubelet makes them
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, err
			}
		}
	}
	if err := s.runtime.Listen(s.socket()); err != nil {
		return nil, err
	}
	if s.cgroups, err = newCgroups(b.name, limitBytes); err != nil {
		return nil, err
	}
	return s, s.cgroups.grow(pods)
}

func (s *site) manifests() string { return filepath.Join(s.dir, "manifests") }
func (s *site) socket() string    { return filepath.Join(s.dir, "cri.sock") }
func (s *site) podLogs() string   { return filepath.Join(s.dir, "logs") }

// start starts evictd on the site with notifications on.
func (s *site) start(config map[string]any) (*daemon, error) {
	full := map[string]any{
		"pluginDir":       s.b.programs.pluginDir,
		"runtimeEndpoint": "unix://" + s.socket(), "podManifestDir": s.manifests(),
		"cgroupRoot": s.cgroups.root, "cgroupDriver": "cgroupfs", "kernelMemcgNotification": true,
		"runDir": filepath.Join(s.runDir, "run"), "kubeletRootDir": s.dir, "podLogsDir": s.podLogs(), "evictionHard": farAway,
	}
	maps.Copy(full, config)
	file, err := evictd.Configure(s.dir, full)
	if err != nil {
		return nil, err
	}
	p, err := evictd.Start(evictd.Options{
		Binary: s.b.programs.evictd, ConfigFile: file,
		Command: func(name string, args ...string) *exec.Cmd { return inGroup(exec.Command(name, args...)) },
	})
	if err != nil {
		return nil, err
	}
	return &daemon{Process: p}, nil
}

func (s *site) close() error {
	s.runtime.Die()
	var errs []error
	if s.cgroups != nil {
		errs = append(errs, s.cgroups.remove())
	}
	for _, dir := range []string{s.dir, s.runDir} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// A watchedTime holds the usage of processes at the beginning and the end of a period.
type watchedTime struct {
	before, after map[string]usage
	passes        int64
	// requests is the number of requests to the site's API server.
	requests int
	took     time.Duration
}

// watch starts evictd, waits for settle and measures it for length.
func (s *site) watch(ctx context.Context, config map[string]any, settle, length time.Duration) (w watchedTime, err error) {
	d, err := s.start(config)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	if err := d.Ready(ctx); err != nil {
		return w, err
	}
	if err := stack.Pause(ctx, settle); err != nil {
		return w, err
	}
	passes, err := d.passes(ctx)
	if err != nil {
		return w, err
	}
	if w.before, err = d.usage(); err != nil {
		return w, err
	}
	asked := s.requests()
	began := monotonic()
	if err := stack.Pause(ctx, length); err != nil {
		return w, err
	}
	w.took = monotonic() - began
	w.requests = s.requests() - asked
	if w.after, err = d.usage(); err != nil {
		return w, err
	}
	w.passes, err = d.passes(ctx)
	w.passes -= passes
	return w, err
}

// requests returns the number of requests to the API server so far.
func (s *site) requests() int {
	if s.api == nil {
		return 0
	}
	n, _, _ := s.api.asked()
	return n
}
