package filesystem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// samples holds one sample of each of the node's filesystems.
type samples struct {
	node, image, container *sample
}

// of returns the sample for the filesystem of a signal, nil for another signal.
func (s *samples) of(signal eviction.Signal) *sample {
	switch b, _ := eviction.Builtin(signal); b.Filesystem {
	case eviction.NodeFs:
		return s.node
	case eviction.ImageFs:
		return s.image
	case eviction.ContainerFs:
		return s.container
	default:
		return nil
	}
}

// observation returns the figure of a signal; its components use room.
func (s *sample) observation(signal eviction.Signal, room []eviction.Component) eviction.Observation {
	return figures.Filesystem(eviction.Observation{Signal: signal, Time: s.time, BootNanos: s.bootNanos, Components: room}, s.at.name, s.room, s.err)
}

// addImages adds the use of images to an observation of their filesystem, if it can be.
func (n *directories) addImages(o *eviction.Observation) {
	use := int64(n.imageBytes) // negative if it cannot be
	if b, _ := eviction.Builtin(o.Signal); b.Unit == eviction.UnitInodes {
		use = int64(n.imageInodes)
	}
	if whole := (eviction.Whole{Size: o.Capacity - o.Available}); use != 0 && o.State == eviction.Observed && whole.Check(use) == nil {
		o.Components = append(o.Components, eviction.Component{Name: figures.Images, Value: use})
	}
}

// aloneAfter gives a runtime that was just installed or started time to answer.
const aloneAfter = 30 * time.Second

// detect returns the layout. While a filesystem or the runtime does not answer, it returns the
// last complete one. If there is permanently no image filesystem, it reports a separate one, so
// that at least nodefs is acted on: without a layout no signal would be.
func (f *Filesystems) detect(all *samples) eviction.LayoutReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	report := all.report()
	complete := report.ImageFsErr == "" && report.ContainerFsErr == ""
	if f.detected && !complete {
		return f.report
	}
	switch {
	case all.node.err != nil || !missing(all.image.err):
		f.missing = time.Time{}
	case f.missing.IsZero():
		f.missing = time.Now()
	case time.Since(f.missing) >= aloneAfter:
		if f.layout == 0 {
			slog.Warn("nodefs acts alone, the container runtime has no filesystem of images", "error", all.image.err)
		}
		report = eviction.LayoutReport{ImageFs: true, ContainerFs: true}
	}
	f.report, f.detected = report, complete
	if report.ImageFsErr == "" {
		f.layout = report.Layout()
	}
	return report
}

// missing reports whether an error means that there is no image filesystem, rather than that it
// or the runtime does not answer.
func missing(err error) bool {
	return errors.Is(err, nodefs.ErrGone) || errors.Is(err, errNoImages) || status.Code(err) == codes.Unimplemented || status.Code(err) == codes.NotFound
}

// report compares devices like the kubelet: images count as separate if either they or the
// writable layers are not on the kubelet's device
// (stats/provider.go:HasDedicatedImageFs, HasDedicatedContainerFs).
func (s *samples) report() eviction.LayoutReport {
	for _, of := range []*sample{s.node, s.image} {
		if of.err != nil {
			return eviction.LayoutReport{ImageFsErr: of.err.Error()}
		}
	}
	r := eviction.LayoutReport{ImageFs: !s.image.at.same(&s.node.at)}
	if s.container.err != nil {
		r.ContainerFsErr = s.container.err.Error()
		return r
	}
	r.ContainerFs = !s.container.at.same(&s.image.at)
	r.ImageFs = r.ImageFs || r.ContainerFs
	return r
}

// seen has the last good samples of the places of pods' data. Where one is nil, the layout decides.
type seen struct {
	samples

	logs, volumes *sample
}

// note stores the new samples and keeps the previous one where there is an error. It warns once
// if logs are on a filesystem without a signal.
func (f *Filesystems) note(now seen) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := &f.seen
	for of, s := range map[**sample]*sample{&last.node: now.node, &last.image: now.image, &last.container: now.container, &last.logs: now.logs, &last.volumes: now.volumes} {
		if s.err == nil {
			*of = s
		}
	}
	warned := f.warned
	if f.warned = !last.signaled(last.logs); f.warned && !warned {
		slog.Warn("logs of pods are on a filesystem without a signal: they count for the pods' limits alone", "directory", f.logs.dir, "filesystem", last.logs.at.name)
	}
}

// signaled reports whether the filesystem of a sample has, or may have, a signal.
func (s *seen) signaled(of *sample) bool {
	return of.on(s.node, true) || of.on(s.image, true) || of.on(s.container, true)
}

// on reports whether both samples are on one filesystem; it returns otherwise if one of them is
// nil.
func (s *sample) on(other *sample, otherwise bool) bool {
	if s == nil || other == nil {
		return otherwise
	}
	return s.at.same(&other.at)
}

// Contents are the parts of pods that are on the filesystem of a signal.
type Contents struct {
	eviction.Signal
	eviction.Unit
	figures.Parts

	// Used is all that is in use there, in that unit, of Capacity; 0 if it is not known.
	Used, Capacity int64
	// Device is the filesystem's. Same are the other devices of its signals: subvolumes of btrfs. 0 if not known.
	Device uint64
	Same   [3]uint64
}

// Holds reports whether a part of a pod on a device is on the signal's filesystem. usual is the answer if the device is 0, not known.
func (c *Contents) Holds(device uint64, usual bool) bool {
	switch {
	case device == 0 || c.Device == 0:
		return usual
	case device == c.Device:
		return true
	default:
		return usual && slices.Contains(c.Same[:], device)
	}
}

// Contents returns the parts of pods that are on the filesystem of a signal, false before a
// layout was detected. The real filesystem of a part decides, not its usual one: logs may have a
// separate filesystem, or be on the images'. Volumes on a filesystem without a signal count as in
// the kubelet.
func (f *Filesystems) Contents(signal eviction.Signal) (Contents, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of, layout := f.seen.of(signal), figures.PartsOf(signal, f.layout)
	parts := figures.Parts{
		Rootfs:  f.seen.container.on(of, layout.Rootfs),
		Logs:    f.seen.logs.on(of, layout.Logs),
		Volumes: f.seen.volumes.on(of, layout.Volumes),
	}
	if !f.seen.signaled(f.seen.volumes) { // a vendor's plugin may take theirs for nodefs
		parts.Volumes = layout.Volumes
	}
	b, _ := eviction.Builtin(signal)
	c := Contents{Signal: signal, Unit: b.Unit, Parts: parts}
	for i, other := range []*sample{f.seen.node, f.seen.image, f.seen.container} {
		if of != nil && other != nil && other.on(of, false) {
			c.Same[i] = other.at.dev
		}
	}
	if of != nil {
		c.Device, c.Capacity, c.Used = of.at.dev, of.room.CapacityBytes, of.room.CapacityBytes-of.room.FreeBytes
		if c.Unit == eviction.UnitInodes {
			c.Capacity, c.Used = of.room.Inodes, of.room.Inodes-of.room.InodesFree
		}
	}
	return c, f.layout != 0
}

// watchWait limits the wait for a filesystem once; one that hangs is not asked again before it answers.
const watchWait = 100 * time.Millisecond

// Watcher returns a function that reads the room of those filesystems that are known and answer now. It
// asks no runtime and takes some µs. Only one goroutine may call it, and ctx ends its waits.
func (f *Filesystems) Watcher(ctx context.Context) func([]eviction.Signal) []eviction.Observation {
	hanging := new(hang.Left)
	return func(signals []eviction.Signal) []eviction.Observation {
		var all samples
		rooms := map[*place]*sample{}
		room := func(p *place) *sample {
			if p != nil && rooms[p] == nil {
				rooms[p] = p.glance(ctx, hanging)
			}
			return rooms[p]
		}
		f.mu.Lock()
		node, images, containers := f.kubelet, f.images, f.containers
		f.mu.Unlock()
		var observations []eviction.Observation
		for _, s := range signals {
			switch b, _ := eviction.Builtin(s); b.Filesystem {
			case eviction.NodeFs:
				all.node = room(node)
			case eviction.ImageFs:
				all.image = room(images)
			default:
				all.container = room(containers)
			}
			if of := all.of(s); of != nil {
				observations = append(observations, of.observation(s, nil))
			}
		}
		return observations
	}
}

// place is a directory of the node and the filesystem it is on.
type place struct {
	node nodefs.FS
	dir  string

	// slot must be held to read; it guards at, the last location of the directory.
	slot hang.Slot
	at   location
}

func newPlace(root nodefs.FS, dir string) *place {
	return &place{node: root, dir: dir, slot: hang.NewSlot()}
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
		return &sample{err: fmt.Errorf("the filesystem of %s does not answer", l.of.dir)}
	}
	return s
}

// read takes a sample. The caller holds slot.
func (p *place) read() *sample {
	s := &sample{time: time.Now(), bootNanos: nodefs.BootNanos()}
	path := p.node.Path(p.dir)
	dev, err := nodefs.FS{}.Device(path)
	if err != nil {
		s.err = err
		return s
	}
	if !p.at.holds(path, dev) {
		p.at = locate(path, dev)
	}
	s.at = p.at
	s.room, s.err = nodefs.FS{}.Statfs(p.at.mountpoint)
	return s
}

// glance reads the place, unless an earlier glance at it hangs.
func (p *place) glance(ctx context.Context, hanging *hang.Left) *sample {
	ctx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	s, err := hang.DoAs(hanging, p.dir, ctx.Done(), func() (*sample, error) {
		p.slot <- struct{}{}
		defer func() { <-p.slot }()
		return p.read(), nil
	})
	if err != nil {
		return &sample{err: err}
	}
	return s
}
