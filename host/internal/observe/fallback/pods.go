package fallback

import (
	"context"
	"errors"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// A meter reads what pods use of one thing.
type meter struct {
	slot

	// open finds where pods are read; the function that it returns reads one.
	open func() (func(*eviction.Pod) eviction.Measurement, error)
}

// Measure reads what pods use of a signal now: memory and tasks from their cgroups.
// It returns those that it has an answer for by then, as Observe does, none for a
// signal of a filesystem: to walk directories is more than a last resort can do.
func (r *Reader) Measure(ctx context.Context, s eviction.Signal, pods []eviction.Pod) []eviction.Measurement {
	m := r.meters[s]
	if m == nil || len(pods) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	came := make(chan eviction.Measurement, len(pods)) // never waited for
	m.run(ctx, func() {
		read, err := m.open()
		for i := 0; err == nil && i < len(pods) && ctx.Err() == nil; i++ {
			came <- read(&pods[i])
		}
	}, func() { close(came) })
	var out []eviction.Measurement
	for {
		select {
		case answer, more := <-came:
			if !more {
				return out
			}
			if answer.State != eviction.MeasurementUnknown {
				answer.Usage = []eviction.SignalUsage{{Signal: s, Value: use(answer)}}
				out = append(out, answer)
			}
		case <-ctx.Done():
			return out
		}
	}
}

// use is the figure that pods rank by.
func use(m eviction.Measurement) int64 {
	if m.Processes.OK {
		return m.Processes.Value
	}
	return m.WorkingSetBytes.Value
}

// podMemory reads working sets, as the built-in plugin does.
func (n node) podMemory() (func(*eviction.Pod) eviction.Measurement, error) {
	h, err := n.fs.MemoryHierarchy()
	if err != nil {
		return nil, err
	}
	return readPods(n, h.OpenMemory, func(m *eviction.Measurement, use nodefs.MemoryUse) {
		m.WorkingSetBytes = eviction.Some(use.WorkingSetBytes())
	})
}

// podTasks reads numbers of tasks.
func (n node) podTasks() (func(*eviction.Pod) eviction.Measurement, error) {
	h, err := n.fs.PIDsHierarchy()
	if err != nil {
		return nil, err
	}
	return readPods(n, h.OpenTasks, func(m *eviction.Measurement, tasks int64) { m.Processes = eviction.Some(tasks) })
}

// opened is a cgroup's open files.
type opened[T any] interface {
	Read(b *nodefs.Buffer) (T, error)
	Close()
}

// readPods reads one pod after the other and keeps nothing open.
func readPods[T any, C opened[T]](n node, open func(cgroup string) (C, error), set func(*eviction.Measurement, T)) (func(*eviction.Pod) eviction.Measurement, error) {
	naming, err := n.fs.Naming(n.facts.CgroupRoot, n.facts.CgroupDriver)
	if err != nil {
		return nil, err
	}
	names, err := naming.Names()
	if err != nil {
		return nil, err
	}
	b := new(nodefs.Buffer)
	return func(pod *eviction.Pod) eviction.Measurement {
		m := eviction.Measurement{UID: pod.UID, Time: time.Now()}
		cgroup, err := names.Pod(pod.UID, string(pod.QoSClass))
		if err != nil {
			return m
		}
		files, err := open(cgroup)
		if err == nil {
			defer files.Close()
			var figure T
			if figure, err = files.Read(b); err == nil {
				m.State = eviction.Measured
				set(&m, figure)
			}
		}
		if errors.Is(err, nodefs.ErrGone) && !pod.Running {
			m.State = eviction.NoStats
		}
		return m
	}, nil
}
