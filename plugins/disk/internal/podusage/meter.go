// Package podusage measures what pods take of the node's disks: writable layers
// by the runtime's figures and by walking, logs and local volumes by walking their
// directories, or by project quota where the filesystem has it.
//
// The figures are the kubelet's, obtained in other ways: plugins/disk/README.md explains how, and the
// differences. The package decides nothing and reads nothing before a call: it has no background
// loop, and never returns an old figure as a new one.
package podusage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/plugins/disk/internal/quota"
	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// The defaults of Walk.
const (
	defaultEntries  = 2_000_000
	defaultParallel = 4
)

// Runtime is the part of the container runtime's service that is needed here;
// runtimeapi.RuntimeServiceClient implements it.
type Runtime interface {
	ListContainers(ctx context.Context, in *runtimeapi.ListContainersRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	ListContainerStats(ctx context.Context, in *runtimeapi.ListContainerStatsRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error)
}

// Options configure a Meter.
type Options struct {
	Node    eviction.NodeFacts
	Runtime Runtime
	// Contents returns the parts of pods that count for a signal, false while they are not known.
	Contents func(eviction.Signal) (filesystem.Contents, bool)
	// Walk must be valid.
	Walk Walk
}

// Walk limits the cost of walking directories. The zero value of each field means its default.
type Walk struct {
	// EntriesPerMeasure limits the directory entries that one Measure reads in all, 2,000,000
	// by default. The next Measure continues with the rest.
	EntriesPerMeasure int64 `json:"entriesPerMeasure,omitempty"`
	// Parallel limits the directories that are walked at once, one per pod; 4 by default.
	Parallel int `json:"parallel,omitempty"`
}

// Validate returns all errors, each with the field's name.
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

// Meter measures pods. It is safe for concurrent use.
type Meter struct {
	lists    *lists
	contents func(eviction.Signal) (filesystem.Contents, bool)
	walk     Walk
	places   places
	cgroups  cgroups
	trees    *trees
	// hanging are the pods with a call that hangs in their files.
	hanging hang.Left
	books   books
	// warned: it was logged that some pods are not fully known.
	warned atomic.Bool
	// warnedOld: it was logged that the runtime's lists are not new.
	warnedOld atomic.Bool
}

// New returns a Meter. Close it when no further Measure will begin.
func New(o Options) *Meter {
	return &Meter{
		lists:    newLists(o.Runtime),
		contents: o.Contents,
		walk:     Walk{cmp.Or(o.Walk.EntriesPerMeasure, defaultEntries), cmp.Or(o.Walk.Parallel, defaultParallel)},
		places:   places{fs: nodefs.FS{Root: o.Node.RootDir}, podLogs: o.Node.PodLogsDir, kubelet: o.Node.KubeletRootDir},
		cgroups:  newCgroups(o.Node),
		trees:    &trees{open: openWalk, byDir: make(map[string]*tree)},
		books:    books{of: map[filesystem.Contents]*book{}},
	}
}

// Tidy forgets directories that were not requested lately. It is cheap enough for each pass.
func (m *Meter) Tidy() { m.trees.tidy(time.Now()) }

// Removing must be called before something is removed that belongs to no pod, such as images.
func (m *Meter) Removing() { m.books.removing(m.contents) }

// Close drops what is remembered. A Measure in progress continues.
func (m *Meter) Close() { m.trees.close() }

// errLayout means that the layout, which decides what a signal counts, is not known.
var errLayout = errors.New("the layout of the node's filesystems is not known yet")

// Measure implements eviction.Measurer for the signals of filesystems. It replies shortly
// before the deadline of ctx. A directory too large to be walked by then counts with its last
// complete figure. If it has none, the part counted so far is a lower bound, and the pod holds at
// most that and the usage that came and no pod explains. The next Measure continues the walk. A
// call that hangs in a filesystem is left behind, and not repeated before it returns.
//
// The last list of containers counts if the runtime does not send one soon, and containers that have
// processes count without being listed. The error is the runtime's, if it fails and has never sent a
// list. Pods whose answer needs it, and which have no processes, are then unknown; pods of which only
// files count are measured anyway. A writable layer that the runtime has no figure of, and whose directory
// is not found, counts like one whose walk is not finished.
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
		c.known = m.ask(ctx, req.Pods, c.detailed)
		c.hopes = m.books.refused(c.known.layersErr != nil || c.known.old != nil, c.began)
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
	m.warnOld(cmp.Or(c.known.old, c.known.layersErr))
	if err = c.known.err; c.known.deaf {
		err = c.known.layersErr
	}
	if err != nil && !errors.Is(err, answers.ErrLate) {
		return fmt.Errorf("figures of containers: %w", err)
	}
	return nil
}

// warnOld logs, once until the runtime's lists are new again, that they are not.
func (m *Meter) warnOld(err error) {
	if err == nil {
		m.warnedOld.Store(false)
	} else if !m.warnedOld.Swap(true) {
		slog.Warn("lists of the container runtime are not new: the last ones count, processes and directories", "error", err)
	}
}

// A call is one Measure.
type call struct {
	meter    *Meter
	began    time.Time
	at       eviction.PassView
	detailed bool
	signals  []filesystem.Contents
	// needs are the parts without which there is no answer, looks the parts that are measured.
	needs, looks figures.Parts
	projects     *quota.Projects
	mounts       *nodeMounts
	// known holds the runtime's answers, after it was asked. hopes: it has refused figures for a
	// moment only.
	known known
	hopes bool

	mu sync.Mutex
	// held are answers that wait for all others.
	held []held
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
		c.signals = append(c.signals, contents)
		c.needs.Rootfs = c.needs.Rootfs || contents.Rootfs
		c.needs.Logs = c.needs.Logs || contents.Logs
		c.needs.Volumes = c.needs.Volumes || contents.Volumes
	}
	if len(c.signals) == 0 {
		c.needs = everything
	}
	if c.looks = c.needs; c.detailed {
		c.looks = everything
	}
	// The kubelet registers projects while it runs, so read the file each time. If that fails,
	// directories are walked instead.
	c.projects, _ = quota.Read(m.places.fs.Root)
	if c.looks.Rootfs && m.cgroups.ok {
		c.mounts = newNodeMounts(m.places.fs)
	}
	return c, nil
}

var everything = figures.Parts{Rootfs: true, Logs: true, Volumes: true}

// replyInTime returns two contexts that end before the caller's deadline: look, when measuring must
// stop so that the answers can still be put together, and stop, when they must be sent.
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
