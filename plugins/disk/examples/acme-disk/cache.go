package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// batch bounds the files that are chosen in one look at the cache, so that a cache of millions
// takes no memory to speak of.
const batch = 4096

// dropCache removes the oldest files of the cache until enough is available. It is
// a reclaim step: it can be called again at any time, also while it runs, says that
// it is alive, and what it has reclaimed counts even if it ends with an error.
func (s *scratch) dropCache(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	set := s.current.Load()
	if set == nil {
		return eviction.Reclaimed{}, sdk.ErrNotConfigured
	}
	percent, enough, err := set.availablePercent(req.Signal)
	if err != nil {
		return eviction.Reclaimed{}, err
	}
	if enough {
		return eviction.Reclaimed{Message: fmt.Sprintf("%d%% of the disk is available, nothing to do", percent)}, nil
	}
	d := drop{settings: set, signal: req.Signal, report: progress}
	if err := d.open(); errors.Is(err, fs.ErrNotExist) {
		return eviction.Reclaimed{Message: "there is no cache"}, nil
	} else if err != nil {
		return eviction.Reclaimed{}, err
	}
	defer func() { _ = d.cache.Close() }() // only a directory
	err = d.run(ctx)
	d.released.Message = fmt.Sprintf("removed the %d oldest files of the cache", d.removed)
	return d.released, err
}

// A drop is one run of the step.
type drop struct {
	*settings
	signal eviction.Signal
	report func(eviction.Reclaimed)

	// cache is the only way to the files: whatever a symlink in it says, and
	// whenever it is put there, an os.Root stays inside.
	cache    *os.Root
	device   uint64
	removed  int
	released eviction.Reclaimed
	reported time.Time
	// failed is the first thing that went wrong. The step goes on: there may be
	// enough without what it cannot read or remove.
	failed error
}

func (d *drop) open() error {
	disk, err := os.Open(d.fs.Path(d.MountPoint))
	if err != nil {
		return err
	}
	defer func() { _ = disk.Close() }() // only a directory
	// A symlink to the pods in the cache's place would be inside of the disk, too
	// (Linux 5.6).
	fd, err := unix.Openat2(int(disk.Fd()), d.CacheDir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return fmt.Errorf("open %s below %s: %w", d.CacheDir, disk.Name(), err)
	}
	defer func() { _ = unix.Close(fd) }() // only a directory
	if d.cache, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
		return fmt.Errorf("open %s below %s: %w", d.CacheDir, disk.Name(), err)
	}
	info, err := d.cache.Stat(".")
	if err != nil {
		return err
	}
	d.device = stat(info).Dev
	return nil
}

// run removes batch after batch. It ends when enough is available, when nothing is
// left, or when a whole batch could not be removed.
func (d *drop) run(ctx context.Context) error {
	for {
		files := d.oldest(ctx)
		before := d.removed
		for _, f := range files {
			_, enough, err := d.availablePercent(d.signal)
			if err = errors.Join(err, ctx.Err()); enough || err != nil {
				return errors.Join(err, d.failed)
			}
			d.remove(f)
		}
		if len(files) < batch || d.removed == before {
			return errors.Join(ctx.Err(), d.failed)
		}
	}
}

// A file is one that may go.
type file struct {
	path    string
	changed time.Time
	// frees is the amount that its removal gives back: nothing while it has another name.
	frees eviction.Reclaimed
}

// oldest returns up to batch files, the oldest first.
func (d *drop) oldest(ctx context.Context) []file {
	var files []file
	byAge := func(a, b file) int { return a.changed.Compare(b.changed) }
	err := fs.WalkDir(d.cache.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		d.alive()
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		var info fs.FileInfo
		if err == nil {
			info, err = d.cache.Lstat(path)
		}
		switch {
		case err != nil:
			d.note(err)
		case stat(info).Dev != d.device: // another disk, mounted here
			if entry.IsDir() {
				return fs.SkipDir
			}
		case info.Mode().IsRegular():
			f := file{path: path, changed: info.ModTime()}
			if stat(info).Nlink == 1 {
				f.frees = eviction.Reclaimed{Bytes: stat(info).Blocks * 512, Inodes: 1}
			}
			if files = append(files, f); len(files) == 2*batch {
				slices.SortFunc(files, byAge)
				files = files[:batch]
			}
		}
		return nil
	})
	d.note(err)
	slices.SortFunc(files, byAge)
	return files[:min(len(files), batch)]
}

// remove removes a file.
func (d *drop) remove(f file) {
	if err := d.cache.Remove(f.path); err != nil {
		d.note(err)
		return
	}
	d.removed++
	d.released.Bytes += f.frees.Bytes
	d.released.Inodes += f.frees.Inodes
	d.alive()
}

// note keeps the first thing that went wrong. That another program was faster in
// removing a file is nothing wrong.
func (d *drop) note(err error) {
	if d.failed == nil && err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.failed = err
	}
}

// alive reports once a second to the host how far the step is, which gives up on one
// without a report for 30 s.
func (d *drop) alive() {
	if now := time.Now(); now.Sub(d.reported) >= time.Second {
		d.reported = now
		d.report(d.released)
	}
}

func stat(info fs.FileInfo) *syscall.Stat_t {
	s, _ := info.Sys().(*syscall.Stat_t) // on Linux it is nothing else
	return s
}
