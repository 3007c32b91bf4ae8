package fallback

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// deadline bounds what is read at once.
const deadline = 500 * time.Millisecond

// A Reader reads the figures of one node. It may be used concurrently.
type Reader struct {
	sources map[eviction.Signal]*source
	meters  map[eviction.Signal]*meter
}

// New returns the reader of the node that facts describe.
func New(facts eviction.NodeFacts) *Reader {
	n := node{fs: nodefs.FS{Root: facts.RootDir}, facts: facts}
	disk := newSource("the filesystem of "+n.fs.Path(facts.KubeletRootDir), n.disk)
	memory := &meter{slot: newSlot(), open: n.podMemory}
	return &Reader{sources: map[eviction.Signal]*source{
		eviction.MemoryAvailable:            newSource("the node's memory", n.memory),
		eviction.AllocatableMemoryAvailable: newSource("the memory of all pods", n.allocatable),
		eviction.NodeFsAvailable:            disk,
		eviction.NodeFsInodesFree:           disk,
		eviction.PIDAvailable:               newSource("the node's tasks", n.pids),
	}, meters: map[eviction.Signal]*meter{
		eviction.MemoryAvailable:            memory,
		eviction.AllocatableMemoryAvailable: memory,
		eviction.PIDAvailable:               {slot: newSlot(), open: n.podTasks},
	}}
}

// Reads reports whether s is one of the signals that can be read here.
func (r *Reader) Reads(s eviction.Signal) bool { return r.sources[s] != nil }

// Observe reads signals now and returns one observation of each. It returns at the
// deadline, or when ctx ends, with those unknown that had no answer by then.
func (r *Reader) Observe(ctx context.Context, signals []eviction.Signal) []eviction.Observation {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	coming := map[*source]<-chan sample{}
	for _, s := range signals {
		if from := r.sources[s]; from != nil && coming[from] == nil {
			coming[from] = from.look(ctx)
		}
	}
	came := make(map[*source]sample, len(coming))
	out := make([]eviction.Observation, 0, len(signals))
	for _, s := range signals {
		from := r.sources[s]
		if from == nil {
			out = append(out, eviction.Observation{Signal: s, Err: "not a figure that the host reads by itself"})
			continue
		}
		if _, ok := came[from]; !ok {
			came[from] = from.await(ctx, coming[from])
		}
		out = append(out, came[from].of(s))
	}
	return out
}

// A slot is held by the one goroutine that reads something that may hang: a dead NFS
// server below the kubelet's directory, a cgroup whose lock is held. What hangs keeps that
// one and no other.
type slot chan struct{}

func newSlot() slot { return make(slot, 1) }

// run has work done in a goroutine when the slot is free, and reports by calling done,
// worked or not. It ends with ctx, or when the kernel has answered.
func (s slot) run(ctx context.Context, work, done func()) {
	go func() {
		defer done()
		select {
		case s <- struct{}{}:
			defer func() { <-s }()
			work()
		case <-ctx.Done():
		}
	}()
}

// A source is one thing to look at.
type source struct {
	slot

	name string
	read func() ([]eviction.Observation, error)
}

func newSource(name string, read func() ([]eviction.Observation, error)) *source {
	return &source{slot: newSlot(), name: name, read: read}
}

// A sample is what one look has seen. A signal that is not in it is absent.
type sample struct {
	observed  []eviction.Observation
	time      time.Time
	bootNanos int64
	err       error
}

// look begins to look. What it sees is newer than the call.
func (s *source) look(ctx context.Context) <-chan sample {
	came := make(chan sample, 1)
	s.run(ctx, func() {
		seen := sample{time: time.Now(), bootNanos: nodefs.BootNanos()}
		seen.observed, seen.err = s.read()
		came <- seen
	}, func() {})
	return came
}

func (s *source) await(ctx context.Context, came <-chan sample) sample {
	select {
	case seen := <-came:
		return seen
	case <-ctx.Done():
	}
	select {
	case seen := <-came:
		return seen
	default:
		return sample{err: fmt.Errorf("%s does not answer", s.name)}
	}
}

func (s sample) of(signal eviction.Signal) eviction.Observation {
	o := eviction.Observation{Signal: signal, State: eviction.Absent}
	if s.err != nil {
		o.State, o.Err = eviction.Unknown, s.err.Error()
	} else if i := slices.IndexFunc(s.observed, func(o eviction.Observation) bool { return o.Signal == signal }); i >= 0 {
		o = s.observed[i]
		o.State = eviction.Observed
	}
	o.Time, o.BootNanos = s.time, s.bootNanos
	return o
}
