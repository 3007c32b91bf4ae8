package filesystem

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// place is a directory and the filesystem it is on.
type place struct {
	dir  string // the node's path
	path string // this process's path

	// slot must be held to read; it guards at, the last location of the directory.
	slot hang.Slot
	at   location
}

func newPlace(root nodefs.FS, dir string) *place {
	return &place{dir: dir, path: root.Path(dir), slot: hang.NewSlot()}
}

// sample is the result of reading a place once.
type sample struct {
	room      nodefs.FilesystemSample
	at        location
	time      time.Time
	bootNanos int64
	err       error
}

// look begins to read the place, until ctx ends. The sample is newer than the call.
func (p *place) look(ctx context.Context) look {
	return look{of: p, sample: hang.BeginIn(p.slot, ctx.Done(), func() (*sample, error) { return p.read(), nil })}
}

// A look is a sample that is being read.
type look struct {
	of     *place
	sample *hang.Pending[*sample]
}

// wait returns the sample.
func (l look) wait() *sample {
	s, err := l.sample.Wait()
	if err != nil {
		return &sample{err: fmt.Errorf("the filesystem of %s does not answer", l.of.path)}
	}
	return s
}

// read takes a sample. The caller holds slot.
func (p *place) read() *sample {
	s := &sample{time: time.Now(), bootNanos: nodefs.BootNanos()}
	dev, err := nodefs.FS{}.Device(p.path)
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
