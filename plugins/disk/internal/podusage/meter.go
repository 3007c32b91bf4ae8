package podusage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/plugins/disk/internal/quota"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
)

// The defaults of Walk.
const (
	defaultEntries  = 2_000_000
	defaultParallel = 4
)

// Runtime is the part of the container runtime's service that is needed here;
// runtimeapi.RuntimeServiceClient has it.
type Runtime interface {
	ListContainers(ctx context.Context, in *runtimeapi.ListContainersRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	ListContainerStats(ctx context.Context, in *runtimeapi.ListContainerStatsRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error)
}

// Options configure a Meter.
type Options struct {
	Node    eviction.NodeFacts
	Runtime Runtime
	// Contents returns what of a pod counts for a signal, false while that is not known.
	Contents func(eviction.Signal) (filesystem.Contents, bool)
	// Walk must be valid.
	Walk Walk
}

// Walk bounds what walking through directories costs. The zero value of each
// field is its default.
type Walk struct {
	// EntriesPerMeasure bounds the directory entries that one Measure looks at in all,
	// 2,000,000 by default. The rest is looked at by the next one.
	EntriesPerMeasure int64 `json:"entriesPerMeasure,omitempty"`
	// Parallel bounds the directories that are walked at a time, one of each pod, 4 by default.
	Parallel int `json:"parallel,omitempty"`
}

// Validate returns all that is wrong, each with the field's name.
func (w Walk) Validate() error {
	var errs []error
	if w.EntriesPerMeasure < 0 || w.EntriesPerMeasure > 0 && w.EntriesPerMeasure < chunkEntries {
		errs = append(errs, fmt.Errorf("entriesPerMeasure is %d, want at least %d", w.EntriesPerMeasure, chunkEntries))
	}
	if w.Parallel < 0 || w.Parallel > 64 {
		errs = append(errs, fmt.Errorf("parallel is %d, want 1 to 64", w.Parallel))
	}
	return errors.Join(errs...)
}

func (w Walk) filled() Walk {
	if w.EntriesPerMeasure == 0 {
		w.EntriesPerMeasure = defaultEntries
	}
	if w.Parallel == 0 {
		w.Parallel = defaultParallel
	}
	return w
}

// Meter measures pods. It is safe for concurrent use.
type Meter struct {
	runtime  Runtime
	contents func(eviction.Signal) (filesystem.Contents, bool)
	walk     Walk
	places   places
	cgroups  cgroups
	trees    *trees
	// hanging are the pods whose files hang.
	hanging hang.Left
	// lastKnown is of the last time when the runtime had figures of all.
	lastKnown   atomic.Pointer[known]
	unexplained unexplained
	// warned of pods of which not all is known.
	warned atomic.Bool
}

// New returns a Meter. Close it when no further Measure will begin.
func New(o Options) *Meter {
	m := &Meter{
		runtime:     o.Runtime,
		contents:    o.Contents,
		walk:        o.Walk.filled(),
		places:      newPlaces(o.Node),
		cgroups:     newCgroups(o.Node),
		trees:       newTrees(),
		unexplained: unexplained{of: map[filesystem.Contents]remembered{}},
	}
	m.lastKnown.Store(&known{})
	return m
}

// Tidy forgets directories that were not asked for lately. It is cheap enough
// for each pass.
func (m *Meter) Tidy() { m.trees.tidy(time.Now()) }

// Removing tells that something is about to be removed that is no pod's.
func (m *Meter) Removing() { m.unexplained.removing(m.contents) }

// Close gives up what is remembered. A Measure that is under way goes on.
func (m *Meter) Close() { m.trees.close() }

// errLayout: what a signal counts depends on the layout.
var errLayout = errors.New("the layout of the node's filesystems is not known yet")

// Measure implements eviction.Measurer for the signals of filesystems. It replies
// shortly before the deadline of ctx: a directory that is too large to be walked
// by then counts with its last complete figure or, if it has none, with what was
// counted so far and, for the ranking, all that no pod explains and did not before. The next Measure goes on
// where this one ended. What hangs in a filesystem is left behind, and not tried again
// until it has come back.
//
// The error is the runtime's, if that could not be asked. Pods whose answer needs its
// list of containers are unknown then; those of which only files count are measured all
// the same. A writable layer that it has no figure of, and that is not found to be
// walked, is hidden like what a walk did not reach.
func (m *Meter) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	c, err := m.newCall(req)
	if err != nil {
		return err
	}
	ctx, stop, cancel := replyInTime(ctx)
	defer cancel()
	var wait hang.Group
	asked := make(chan struct{})
	wait.Go(func() {
		defer close(asked)
		c.known = m.ask(ctx, req.Pods)
	})
	r := newScheduler(m, c, c.newPods(ctx, req.Pods))
	for range m.walk.Parallel {
		wait.Go(func() { r.work(ctx, stop) })
		wait.Go(func() {
			<-asked
			for p := range r.walked {
				c.give(p, p.answer(ctx, stop), emit)
			}
		})
	}
	wait.Wait()
	c.giveHeld(req.Pods, emit)
	m.trees.endWaiting()
	if err = c.known.err; c.known.deaf {
		err = c.known.layersErr
	}
	if err != nil {
		return fmt.Errorf("figures of containers: %w", err)
	}
	return nil
}

// A call is one Measure.
type call struct {
	meter    *Meter
	began    time.Time
	at       eviction.PassView
	detailed bool
	signals  []filesystem.Contents
	// needs are the parts without which there is no answer, looks those that are
	// looked at.
	needs, looks summary.Parts
	projects     *quota.Projects
	mounts       *nodeMounts
	// known holds the runtime's answers, once it was asked.
	known known

	mu sync.Mutex
	// explained sums what pods take, by signal. held are answers that wait for it.
	explained []int64
	held      []held
	complete  int // answers in which all is known
}

func (m *Meter) newCall(req eviction.MeasureRequest) (*call, error) {
	c := &call{
		meter: m, began: time.Now(), at: req.PassView,
		detailed: req.Detail == eviction.DetailContainers,
	}
	for _, s := range req.Signals {
		if d, _ := eviction.Builtin(s); d.Condition != eviction.DiskPressure {
			continue
		}
		contents, ok := m.contents(s)
		if !ok {
			return nil, fmt.Errorf("measure %s: %w", s, errLayout)
		}
		c.signals, c.explained = append(c.signals, contents), append(c.explained, 0)
		c.needs = union(c.needs, contents.Parts)
	}
	c.looks = c.needs
	if c.detailed || len(c.signals) == 0 {
		c.looks = everything
	}
	if len(c.signals) == 0 {
		c.needs = everything
	}
	// The kubelet registers projects while it runs. A file that cannot be read is
	// no reason to measure nothing: directories are walked then.
	c.projects, _ = quota.Read(m.places.fs.Root)
	if c.looks.Rootfs && m.cgroups.ok {
		c.mounts = newNodeMounts(m.places.fs)
	}
	return c, nil
}

var everything = summary.Parts{Rootfs: true, Logs: true, Volumes: true}

func union(a, b summary.Parts) summary.Parts {
	return summary.Parts{Rootfs: a.Rootfs || b.Rootfs, Logs: a.Logs || b.Logs, Volumes: a.Volumes || b.Volumes}
}

// replyInTime returns a context that ends a little before the caller's deadline, so
// that what is known by then can still be put together, and one that ends when it
// is time to send what there is.
func replyInTime(ctx context.Context) (look, stop context.Context, cancel context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		stop, cancel = context.WithCancel(ctx)
		return stop, stop, cancel
	}
	margin := min(time.Until(deadline)/5, 250*time.Millisecond)
	stop, cancelStop := context.WithDeadline(ctx, deadline.Add(-margin/4))
	look, cancelLook := context.WithDeadline(stop, deadline.Add(-margin))
	return look, stop, func() { cancelLook(); cancelStop() }
}
