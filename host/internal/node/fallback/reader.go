package fallback

import (
	"context"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// deadline bounds one Observe or Measure.
const deadline = 500 * time.Millisecond

// A Reader reads the figures of one node. It is safe for concurrent use.
type Reader struct {
	node    node
	fs      nodefs.FS
	sources map[eviction.Signal]source
	meters  map[eviction.Signal]meter
}

// A source reads a signal. Signals that read the same thing share a slot, because a read may hang,
// for example on a dead NFS server below the kubelet's directory.
type source struct {
	slot hang.Slot
	name string
	read func(eviction.Observation) eviction.Observation
}

// A meter measures pods' use of one resource. open finds their cgroups.
type meter struct {
	slot hang.Slot
	open func() (podReader, error)
}

// New returns a reader of the node that facts describes.
func New(facts eviction.NodeFacts) *Reader {
	n := newNode(facts)
	memory := func(from *kept[nodefs.MemorySample]) func(eviction.Observation) eviction.Observation {
		return func(o eviction.Observation) eviction.Observation {
			m, err := from.read()
			return figures.Memory(o, m, err)
		}
	}
	tasks := func(o eviction.Observation) eviction.Observation {
		s, err := n.tasks.read()
		return figures.PIDs(o, s, err)
	}
	disk := source{hang.NewSlot(), "the filesystem of " + facts.KubeletRootDir, n.disk}
	podMemory := meter{hang.NewSlot(), n.podMemory}
	return &Reader{node: n, fs: n.fs, sources: map[eviction.Signal]source{
		eviction.MemoryAvailable:            {hang.NewSlot(), "the node's memory", memory(n.total)},
		eviction.AllocatableMemoryAvailable: {hang.NewSlot(), "the memory of all pods", memory(n.allocatable)},
		eviction.NodeFsAvailable:            disk,
		eviction.NodeFsInodesFree:           disk,
		eviction.PIDAvailable:               {hang.NewSlot(), "the node's tasks", tasks},
	}, meters: map[eviction.Signal]meter{
		eviction.MemoryAvailable:            podMemory,
		eviction.AllocatableMemoryAvailable: podMemory,
		eviction.PIDAvailable:               {hang.NewSlot(), n.podTasks},
	}}
}

// SetMemoryFigure sets how memory.available is computed.
func (r *Reader) SetMemoryFigure(figure string) {
	if r.node.figure.Swap(figure) != figure {
		r.node.total.reopen()
	}
}

// Reads reports whether the Reader can read s.
func (r *Reader) Reads(s eviction.Signal) bool {
	_, reads := r.sources[s]
	return reads
}

// Whole returns the machine's memory or the tasks that it can have, for signals of these.
func (r *Reader) Whole(s eviction.Signal) (whole eviction.Whole) {
	b, _ := eviction.Builtin(s)
	if b.Condition == eviction.MemoryPressure {
		return r.node.machine()
	}
	naming, err := r.fs.Naming(r.node.facts.CgroupRoot, r.node.facts.CgroupDriver)
	if b.Condition == eviction.PIDPressure && err == nil {
		tasks, _ := r.fs.ReadPIDs(naming) // else any amount can be
		whole = tasks.Whole()
	}
	return whole
}

// Read reads one of those signals now, without a time limit.
func (r *Reader) Read(s eviction.Signal) eviction.Observation {
	return r.sources[s].read(figures.At(s))
}

// Observe reads signals and returns one observation of each. It returns at the deadline or when ctx
// ends; signals without an answer by then are unknown.
func (r *Reader) Observe(ctx context.Context, signals []eviction.Signal) []eviction.Observation {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var wait sync.WaitGroup
	out := make([]eviction.Observation, len(signals))
	for i, s := range signals {
		wait.Go(func() { out[i] = r.observe(ctx, s) })
	}
	wait.Wait()
	return out
}

func (r *Reader) observe(ctx context.Context, s eviction.Signal) eviction.Observation {
	from, reads := r.sources[s]
	if !reads {
		return eviction.Observation{Signal: s, Err: "not a figure that the host reads by itself"}
	}
	o, err := hang.DoIn(from.slot, ctx.Done(), func() (eviction.Observation, error) { return from.read(figures.At(s)), nil })
	if err != nil {
		return eviction.Observation{Signal: s, Err: from.name + " does not answer"}
	}
	return o
}

// Measure measures pods' memory or tasks from their cgroups. It returns the answers available by
// the deadline, like Observe, and none for a filesystem signal: walking directories is too much for
// a last resort.
func (r *Reader) Measure(ctx context.Context, s eviction.Signal, pods []eviction.Pod) []eviction.Measurement {
	m, measures := r.meters[s]
	if !measures {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	came := make(chan eviction.Measurement, len(pods)) // senders never wait
	_, _ = hang.DoIn(m.slot, ctx.Done(), func() (struct{}, error) {
		read, err := m.open()
		b := new(nodefs.Buffer)
		for i := 0; err == nil && i < len(pods) && ctx.Err() == nil; i++ {
			came <- read(&pods[i], b)
		}
		return struct{}{}, err
	}) // only answers that came in time count
	var out []eviction.Measurement
	for range len(came) {
		answer := <-came
		if answer.State == eviction.MeasurementUnknown {
			continue
		}
		use := answer.WorkingSetBytes.Value
		if answer.Processes.OK {
			use = answer.Processes.Value
		}
		answer.Usage = []eviction.SignalUsage{{Signal: s, Value: use}}
		out = append(out, answer)
	}
	return out
}
