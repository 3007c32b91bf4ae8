package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// farAway are thresholds of all three plugins that nothing here comes near.
var farAway = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "1Mi", "nodefs.inodesFree": "10", "imagefs.available": "1Mi", "imagefs.inodesFree": "10", "pid.available": "10",
}

// A site is a node with pods for evictd to look after: cgroups, manifests and a
// runtime, over the machine's real memory.
type site struct {
	b   *bench
	dir string
	// runDir is in memory, as /run is on nodes.
	runDir  string
	cgroups *cgroups
	cri     *cri
}

// newSite makes a site; the cgroup of all pods may use limitBytes.
func newSite(b *bench, pods int, limitBytes int64) (_ *site, err error) {
	s := &site{b: b}
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
	if s.cri, err = serveCRI(s.socket(), pods); err != nil {
		return nil, err
	}
	if s.cgroups, err = newCgroups(b.name, limitBytes); err != nil {
		return nil, err
	}
	return s, s.cgroups.grow(pods)
}

func (s *site) manifests() string { return filepath.Join(s.dir, "manifests") }
func (s *site) socket() string    { return filepath.Join(s.dir, "cri.sock") }

// start starts evictd on the site with notifications on.
func (s *site) start(config map[string]any) (*daemon, error) {
	full := map[string]any{
		"runtimeEndpoint": "unix://" + s.socket(), "podManifestDir": s.manifests(),
		"cgroupRoot": s.cgroups.root, "cgroupDriver": "cgroupfs", "kernelMemcgNotification": true,
		"runDir": filepath.Join(s.runDir, "run"), "kubeletRootDir": s.dir, "podLogsDir": filepath.Join(s.dir, "logs"), "evictionHard": farAway,
	}
	maps.Copy(full, config)
	return startEvictd(s.b, s.dir, full)
}

func (s *site) close() error {
	var errs []error
	if s.cri != nil {
		errs = append(errs, s.cri.close())
	}
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

// A watchedTime is what processes used between two looks at them.
type watchedTime struct {
	before, after map[string]usage
	passes        int64
	took          time.Duration
}

// watch starts evictd, lets it settle and looks at it for so long.
func (s *site) watch(ctx context.Context, config map[string]any, settle, length time.Duration) (w watchedTime, err error) {
	d, err := s.start(config)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	if err := d.Ready(ctx); err != nil {
		return w, err
	}
	if err := wait(ctx, settle); err != nil {
		return w, err
	}
	passes, err := d.passes(ctx)
	if err != nil {
		return w, err
	}
	if w.before, err = d.usage(); err != nil {
		return w, err
	}
	began := monotonic()
	if err := wait(ctx, length); err != nil {
		return w, err
	}
	w.took = monotonic() - began
	if w.after, err = d.usage(); err != nil {
		return w, err
	}
	w.passes, err = d.passes(ctx)
	w.passes -= passes
	return w, err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
