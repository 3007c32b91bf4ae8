package memcg

import (
	"context"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
)

// Measure measures pods for those of the requested signals that are among ours.
func (n *Node) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement), ours ...eviction.Signal) error {
	b, release := nodefs.BorrowBuffer()
	defer release()
	machine, _ := n.machine.Read(b) // else any amount can be
	usage := newUsages(req.Signals, ours, len(req.Pods))
	for i := range req.Pods {
		if err := ctx.Err(); err != nil {
			return err // answers emitted before count
		}
		pod := &req.Pods[i]
		m := figures.PodMemory(n.Pods, pod, machine.Whole(), b)
		if m.State == eviction.Measured {
			m.Usage = usage.of(m.WorkingSetBytes.Value)
			if req.Detail == eviction.DetailContainers {
				m.Containers = n.measureContainers(pod, machine.Whole(), b)
			}
		}
		emit(m)
	}
	return nil
}

// measureContainers reads the containers in the order of the row. A container without a cgroup,
// which has ended or not begun, has no figure, nor a container whose figure cannot be. It keeps no descriptors open, since it is called
// only for the pod to be evicted.
func (n *Node) measureContainers(pod *eviction.Pod, machine eviction.Whole, b *nodefs.Buffer) []eviction.ContainerMeasurement {
	out := make([]eviction.ContainerMeasurement, len(pod.Containers))
	for i, c := range pod.Containers {
		out[i].Name = c.Name
		_ = n.Naming.Pod(pod.UID, string(pod.QoSClass), func(cgroup string) error {
			use, err := n.readContainer(cgroup, c.ID, b)
			if used, wrong := use.WorkingSetOf(machine); err == nil && wrong == nil {
				out[i].WorkingSetBytes = eviction.Some(used)
			}
			return err
		})
	}
	return out
}

func (n *Node) readContainer(podPath, id string, b *nodefs.Buffer) (nodefs.MemoryUse, error) {
	cgroup, err := n.Hierarchy.FindContainer(podPath, id)
	if err != nil {
		return nodefs.MemoryUse{}, err
	}
	c, err := n.Hierarchy.OpenMemory(cgroup)
	if err != nil {
		return nodefs.MemoryUse{}, err
	}
	defer c.Close()
	return c.Read(b)
}

// usages provides the Usage of all measurements from one allocation.
type usages struct {
	signals []eviction.Signal
	free    []eviction.SignalUsage
}

func newUsages(asked, ours []eviction.Signal, pods int) usages {
	var u usages
	for _, s := range asked {
		if slices.Contains(ours, s) {
			u.signals = append(u.signals, s)
		}
	}
	u.free = make([]eviction.SignalUsage, 0, pods*len(u.signals))
	return u
}

// of returns the usages of a pod: all signals rank by its working set.
func (u *usages) of(workingSet int64) []eviction.SignalUsage {
	from := len(u.free)
	for _, s := range u.signals {
		u.free = append(u.free, eviction.SignalUsage{Signal: s, Value: workingSet})
	}
	return u.free[from:len(u.free):len(u.free)]
}
