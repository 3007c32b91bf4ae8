package filesystem

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// place is the filesystem that a directory is on.
type place struct {
	dir  string // as the node names it
	path string // as this process reaches it

	// slot is of who asks the kernel, and has at, where the directory was last found.
	slot hang.Slot
	at   location
}

func newPlace(root nodefs.FS, dir string) *place {
	return &place{dir: dir, path: root.Path(dir), slot: hang.NewSlot()}
}

// sample is one look at a place.
type sample struct {
	room      nodefs.FilesystemSample
	at        location
	time      time.Time
	bootNanos int64
	err       error
}

// look looks now, until ctx ends. What it sees is newer than the call.
func (p *place) look(ctx context.Context) look {
	return look{of: p, sample: hang.BeginIn(p.slot, ctx.Done(), func() (*sample, error) { return p.read(), nil })}
}

// A look is on its way.
type look struct {
	of     *place
	sample *hang.Pending[*sample]
}

// wait returns what was seen.
func (l look) wait() *sample {
	s, err := l.sample.Wait()
	if err != nil {
		return &sample{err: fmt.Errorf("the filesystem of %s does not answer", l.of.path)}
	}
	return s
}

// read asks the kernel.
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
