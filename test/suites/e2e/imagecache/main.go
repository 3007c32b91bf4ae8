// Command imagecache is the plugin of a vendor whose storage holds the images: it serves only
// imagefs.available, which it observes and for which it empties a cache. evictd's disk plugin
// does the rest: layout, measuring and ranking.
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

const signal = eviction.ImageFsAvailable

func main() {
	c := &cache{}
	sdk.Serve(sdk.Plugin{
		Name: "imagecache", Version: "1",
		Signals:    []eviction.SignalSpec{{Signal: signal, ReclaimSteps: []eviction.ReclaimStep{{Name: "acme.example/empty-cache"}}}},
		Configurer: sdk.Configure(c.configure),
		Observer:   c,
		Reclaimer:  c,
	})
}

type config struct {
	// Dir is the cache, a directory of files on the image filesystem.
	Dir string `json:"dir"`
}

type cache struct{ dir atomic.Pointer[string] }

func (c *cache) configure(_ context.Context, _ eviction.NodeFacts, given config) error {
	if given.Dir == "" {
		return errors.New("dir is empty")
	}
	c.dir.Store(&given.Dir)
	return nil
}

// Observe implements eviction.Observer.
func (c *cache) Observe(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(*c.dir.Load(), &s); err != nil {
		return eviction.ObserveReply{}, err
	}
	return eviction.ObserveReply{Observations: []eviction.Observation{{
		Signal: signal, State: eviction.Observed, Time: time.Now(),
		Available: int64(s.Bavail) * s.Bsize, Capacity: int64(s.Blocks) * s.Bsize,
	}}}, nil
}

// Reclaim implements eviction.Reclaimer.
func (c *cache) Reclaim(context.Context, eviction.ReclaimRequest, func(eviction.Reclaimed)) (released eviction.Reclaimed, err error) {
	dir, err := os.Open(*c.dir.Load())
	if err != nil {
		return released, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		path := filepath.Join(dir.Name(), name)
		info, statErr := os.Stat(path)
		if statErr = errors.Join(statErr, os.Remove(path)); statErr != nil {
			err = errors.Join(err, statErr)
			continue
		}
		released.Bytes += info.Size()
		released.Inodes++
	}
	// Only after a sync has the filesystem released the space.
	return released, errors.Join(err, unix.Syncfs(int(dir.Fd())))
}
