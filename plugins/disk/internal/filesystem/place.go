package filesystem

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
)

// place is the filesystem that a directory is on.
type place struct {
	dir  string // as the node names it
	path string // as this process reaches it

	// turn is held by the one goroutine that asks the kernel. A filesystem that
	// hangs (a dead NFS server) keeps that one and no other.
	turn chan struct{}
	// at is where the directory was last found; whoever has the turn may use it.
	at location
}

func newPlace(root nodefs.FS, dir string) *place {
	return &place{dir: dir, path: root.Path(dir), turn: make(chan struct{}, 1)}
}

// sample is one look at a place.
type sample struct {
	room      nodefs.FilesystemSample
	at        location
	time      time.Time
	bootNanos int64
	err       error
}

// look is a look that has begun.
type look struct {
	path string
	came chan sample
}

// look begins to look. What it sees is newer than the call.
func (p *place) look(ctx context.Context) look {
	l := look{path: p.path, came: make(chan sample, 1)}
	go func() { // ends with ctx, or when the kernel has answered
		select {
		case p.turn <- struct{}{}:
			defer func() { <-p.turn }()
			l.came <- p.read()
		case <-ctx.Done():
		}
	}()
	return l
}

// await returns what the look has seen, or an error when ctx ends before.
func (l look) await(ctx context.Context) sample {
	select {
	case s := <-l.came:
		return s
	default:
	}
	select {
	case s := <-l.came:
		return s
	case <-ctx.Done():
		return sample{err: fmt.Errorf("the filesystem of %s does not answer", l.path)}
	}
}

// read asks the kernel, with the turn held.
func (p *place) read() sample {
	s := sample{time: time.Now(), bootNanos: nodefs.BootNanos()}
	dev, err := deviceNumber(p.path)
	if err != nil {
		s.err = err
		return s
	}
	if !p.at.holds(p.path, dev) {
		p.at = locate(p.path, dev)
	}
	s.at = p.at
	s.room, s.err = nodefs.FS{}.Statfs(p.at.mountpoint)
	return s
}

// deviceNumber returns the number of the device that a path is on.
func deviceNumber(path string) (uint64, error) {
	for {
		var stat unix.Stat_t
		switch err := unix.Stat(path, &stat); err {
		case nil:
			return stat.Dev, nil
		case unix.EINTR:
		default:
			return 0, fmt.Errorf("stat %s: %w", path, err)
		}
	}
}
