package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// scratch is the disk that pods write to. Calls run at the same time; each takes
// the settings once and stays with them.
type scratch struct {
	current atomic.Pointer[settings]
}

// settings say where the disk is and what may be removed from it.
type settings struct {
	// MountPoint is where the disk is mounted, /scratch by default.
	MountPoint string `json:"mountPoint"`
	// CacheDir is the directory whose files may go, below MountPoint; "cache" by
	// default.
	CacheDir string `json:"cacheDir"`
	// FreePercent of the disk must be available for the rest of the cache to stay, 20 by
	// default. A step does not get the threshold; with less than that, the cache alone never
	// ends the pressure.
	FreePercent int64 `json:"freePercent"`

	fs nodefs.FS
}

// complete checks the settings and fills in what is left out.
func (s *settings) complete(node eviction.NodeFacts) error {
	s.MountPoint = cmp.Or(s.MountPoint, "/scratch")
	s.CacheDir = cmp.Or(s.CacheDir, "cache")
	s.FreePercent = cmp.Or(s.FreePercent, 20)
	s.fs = nodefs.FS{Root: node.RootDir} // evictd may see the node below a mount
	var errs []error
	if !filepath.IsAbs(s.MountPoint) {
		errs = append(errs, fmt.Errorf("config: mountPoint: %q, want an absolute path", s.MountPoint))
	}
	if !filepath.IsLocal(s.CacheDir) || filepath.Clean(s.CacheDir) == "." {
		errs = append(errs, fmt.Errorf("config: cacheDir: %q, want a directory below mountPoint", s.CacheDir))
	}
	if s.FreePercent < 1 || s.FreePercent > 99 {
		errs = append(errs, fmt.Errorf("config: freePercent: %d, want 1 to 99", s.FreePercent))
	}
	return errors.Join(errs...)
}

// Observe implements eviction.Observer for the signals that disk.WithObserver
// asks us about. An error makes those unknown and no others.
func (s *scratch) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	set := s.current.Load()
	if set == nil {
		return eviction.ObserveReply{}, sdk.ErrNotConfigured
	}
	room, err := set.room()
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	now, boot := time.Now(), nodefs.BootNanos()
	var reply eviction.ObserveReply
	for _, signal := range req.Signals {
		o := eviction.Observation{Signal: signal, State: eviction.Observed, Time: now, BootNanos: boot}
		if o.Available, o.Capacity = figures(room, signal); o.Capacity == 0 {
			o.State = eviction.Absent // a filesystem that counts no inodes has none to run out of
		}
		o.Components = []eviction.Component{{Name: "scratch disk on " + set.MountPoint, Value: o.Capacity}}
		reply.Observations = append(reply.Observations, o)
	}
	return reply, nil
}

// room looks at the disk. Were it not mounted the figures would be those of the
// disk below, and the cache what was put under the mount.
//
// statfs of a local disk answers at once. A disk on a network may hang, and had
// better be asked in a goroutine of its own, which the next call looks for.
func (s *settings) room() (nodefs.FilesystemSample, error) {
	path := s.fs.Path(s.MountPoint)
	var here, above unix.Stat_t
	if err := errors.Join(unix.Stat(path, &here), unix.Stat(path+"/..", &above)); err != nil {
		return nodefs.FilesystemSample{}, fmt.Errorf("look for scratch disk at %s: %w", path, err)
	}
	if here.Dev == above.Dev {
		return nodefs.FilesystemSample{}, fmt.Errorf("no disk is mounted at %s", path)
	}
	return s.fs.Statfs(s.MountPoint)
}

// figures returns the available amount and the capacity of a signal.
func figures(room nodefs.FilesystemSample, signal eviction.Signal) (available, capacity int64) {
	if signal == eviction.NodeFsInodesFree {
		return room.InodesFree, room.Inodes
	}
	return room.AvailableBytes, room.CapacityBytes
}

// availablePercent returns the percentage that is available for a signal, and whether that is
// enough.
func (s *settings) availablePercent(signal eviction.Signal) (percent int64, enough bool, err error) {
	room, err := s.room()
	if err != nil {
		return 0, false, err
	}
	available, capacity := figures(room, signal)
	if capacity == 0 {
		return 100, true, nil
	}
	percent = int64(100 * float64(available) / float64(capacity))
	return percent, percent >= s.FreePercent, nil
}
