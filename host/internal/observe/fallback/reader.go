package fallback

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// A Reader reads the figures of one node. It may be used concurrently.
type Reader struct {
	sources map[eviction.Signal]*source
	meters  map[eviction.Signal]*meter
}

// New returns the reader of the node that facts describe.
func New(facts eviction.NodeFacts) *Reader {
	n := node{fs: nodefs.FS{Root: facts.RootDir}, facts: facts}
	disk := newSource("the filesystem of "+n.fs.Path(facts.KubeletRootDir), n.disk)
	memory := newMeter(n.podMemory)
	return &Reader{sources: map[eviction.Signal]*source{
		eviction.MemoryAvailable:            newSource("the node's memory", n.memory),
		eviction.AllocatableMemoryAvailable: newSource("the memory of all pods", n.allocatable),
		eviction.NodeFsAvailable:            disk,
		eviction.NodeFsInodesFree:           disk,
		eviction.PIDAvailable:               newSource("the node's tasks", n.pids),
	}, meters: map[eviction.Signal]*meter{
		eviction.MemoryAvailable:            memory,
		eviction.AllocatableMemoryAvailable: memory,
		eviction.PIDAvailable:               newMeter(n.podTasks),
	}}
}

// Reads reports whether s is one of the signals that can be read here.
func (r *Reader) Reads(s eviction.Signal) bool { return r.sources[s] != nil }

// Observe reads signals now and returns one observation of each. It returns when
// ctx ends at the latest, with those unknown that had no answer by then.
func (r *Reader) Observe(ctx context.Context, signals []eviction.Signal) []eviction.Observation {
	looks := map[*source]<-chan sample{}
	for _, s := range signals {
		if from := r.sources[s]; from != nil && looks[from] == nil {
			looks[from] = from.look(ctx)
		}
	}
	seen := make(map[*source]sample, len(looks))
	out := make([]eviction.Observation, 0, len(signals))
	for _, s := range signals {
		from := r.sources[s]
		if from == nil {
			out = append(out, eviction.Observation{Signal: s, Err: "not a figure that the host reads by itself"})
			continue
		}
		if _, ok := seen[from]; !ok {
			seen[from] = from.await(ctx, looks[from])
		}
		out = append(out, seen[from].of(s))
	}
	return out
}

// A source is one thing to look at, which may hang: a dead NFS server below the
// kubelet's directory, a cgroup whose lock is held.
type source struct {
	name string
	read func() sample
	// turn is held by the one goroutine that looks. What hangs keeps that one and
	// no other.
	turn chan struct{}
}

func newSource(name string, read func() sample) *source {
	return &source{name: name, read: read, turn: make(chan struct{}, 1)}
}

// look begins to look. What it sees is newer than the call.
func (s *source) look(ctx context.Context) <-chan sample {
	came := make(chan sample, 1)
	go func() { // ends with ctx, or when the kernel has answered
		select {
		case s.turn <- struct{}{}:
			defer func() { <-s.turn }()
			now, boot := time.Now(), nodefs.BootNanos()
			seen := s.read()
			seen.time, seen.bootNanos = now, boot
			came <- seen
		case <-ctx.Done():
		}
	}()
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

// A sample is what one look has seen: a pair of figures for each signal, absent
// where the source has none.
type sample struct {
	figures   map[eviction.Signal]figures
	time      time.Time
	bootNanos int64
	err       error
}

type figures struct {
	available, capacity int64
	components          []eviction.Component
}

func (s sample) of(signal eviction.Signal) eviction.Observation {
	o := eviction.Observation{Signal: signal, Time: s.time, BootNanos: s.bootNanos}
	if s.err != nil {
		o.Err = s.err.Error()
		return o
	}
	f, ok := s.figures[signal]
	if !ok {
		o.State = eviction.Absent
		return o
	}
	o.State, o.Available, o.Capacity, o.Components = eviction.Observed, f.available, f.capacity, f.components
	return o
}
