package summary

import (
	"math"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// Measure calls emit for each pod of req, in order. The layout decides what counts for signals
// of filesystems; the others do not need it. Usage has the built-in signals of req, with 0 where
// figures are missing, as in the kubelet.
func (s *Summary) Measure(req eviction.MeasureRequest, layout eviction.Layout, emit func(eviction.Measurement)) {
	signals := make([]eviction.Signal, 0, len(req.Signals))
	usageOf := make([]usage, 0, len(req.Signals))
	for _, signal := range req.Signals {
		if _, ok := eviction.Builtin(signal); ok {
			signals = append(signals, signal)
			usageOf = append(usageOf, usageFor(signal, layout))
		}
	}
	disks := slices.ContainsFunc(signals, func(s eviction.Signal) bool {
		b, _ := eviction.Builtin(s)
		return b.Condition == eviction.DiskPressure
	})
	timeOf := timeFor(signals)
	usages := make([]eviction.SignalUsage, 0, len(req.Pods)*len(signals))
	for i := range req.Pods {
		row := &req.Pods[i]
		pod := s.Pod(row.UID)
		if pod == nil {
			emit(eviction.Measurement{UID: row.UID, State: eviction.NoStats})
			continue
		}
		if pod.Impossible != "" && disks {
			emit(eviction.Measurement{UID: row.UID, Err: "the summary says " + pod.Impossible})
			continue
		}
		from := len(usages)
		for k, signal := range signals {
			usages = append(usages, eviction.SignalUsage{Signal: signal, Value: usageOf[k](pod, row.Volumes)})
		}
		m := eviction.Measurement{
			UID: row.UID, State: eviction.Measured, Usage: usages[from:len(usages):len(usages)],
			WorkingSetBytes:           pod.workingSet(),
			Processes:                 pod.Processes,
			EphemeralStorageUsedBytes: pod.EphemeralStorage.UsedBytes,
			Time:                      timeOf(pod),
		}
		if req.Detail == eviction.DetailContainers {
			m.Containers = pod.ContainerMeasurements()
			m.Volumes = pod.VolumeMeasurements()
		}
		emit(m)
	}
}

// Usage returns the figure by which a built-in signal ranks pods (memoryUsage, processUsage,
// podDiskUsage). volumes are those of the pod's row.
func (p *Pod) Usage(signal eviction.Signal, layout eviction.Layout, volumes []eviction.Volume) int64 {
	return usageFor(signal, layout)(p, volumes)
}

// usage is Pod.Usage for one signal, prepared for many pods.
type usage func(p *Pod, volumes []eviction.Volume) int64

func usageFor(signal eviction.Signal, layout eviction.Layout) usage {
	b, _ := eviction.Builtin(signal)
	switch {
	case b.Condition == eviction.MemoryPressure:
		return func(p *Pod, _ []eviction.Volume) int64 { return p.Memory.WorkingSetBytes.Value }
	case b.Condition == eviction.PIDPressure:
		return func(p *Pod, _ []eviction.Volume) int64 { return p.Processes.Value }
	case b.Filesystem == "":
		return func(*Pod, []eviction.Volume) int64 { return 0 }
	}
	parts := PartsOf(signal, layout)
	return func(p *Pod, volumes []eviction.Volume) int64 { return p.Disk(parts, b.Unit, volumes) }
}

// workingSet returns 0 if the memory section has no figure: a pod whose memory is reported at
// all counts as using none (memoryUsage).
func (p *Pod) workingSet() eviction.Figure {
	if p.Memory.Present {
		return eviction.Some(p.Memory.WorkingSetBytes.Value)
	}
	return eviction.Figure{}
}

// Parts are the parts of a pod that count for a signal: those on its filesystem.
type Parts struct {
	// Rootfs are writable layers.
	Rootfs bool
	Logs   bool
	// Volumes are the volumes with CountsForRanking.
	Volumes bool
}

// PartsOf returns the parts that count for a signal of a filesystem. On a filesystem that has
// only images nothing counts: the kubelet has no figure of the images that a pod uses.
func PartsOf(signal eviction.Signal, layout eviction.Layout) Parts {
	b, _ := eviction.Builtin(signal)
	switch {
	case layout == eviction.LayoutShared, layout == eviction.LayoutContainerFs && b.Filesystem != eviction.ImageFs:
		return Parts{Rootfs: true, Logs: true, Volumes: true}
	case layout == eviction.LayoutImageFs && b.Filesystem == eviction.NodeFs:
		return Parts{Logs: true, Volumes: true}
	case layout == eviction.LayoutImageFs:
		return Parts{Rootfs: true}
	default:
		return Parts{}
	}
}

// Disk returns the usage of the given parts of the pod, in bytes or inodes. volumes are those of
// the pod's row.
func (p *Pod) Disk(of Parts, unit eviction.Unit, volumes []eviction.Volume) int64 {
	figure := func(u *Use) int64 { return u.UsedBytes.Value }
	if unit == eviction.UnitInodes {
		figure = func(u *Use) int64 { return u.InodesUsed.Value }
	}
	var sum int64
	for i := range p.Containers {
		c := &p.Containers[i]
		if of.Rootfs {
			sum = Add(sum, figure(&c.Rootfs))
		}
		if of.Logs {
			sum = Add(sum, figure(&c.Logs))
		}
	}
	if !of.Volumes {
		return sum
	}
	for i := range volumes {
		if !volumes[i].CountsForRanking {
			continue
		}
		if v := p.volume(volumes[i].Name); v != nil {
			sum = Add(sum, figure(&v.Use))
		}
	}
	return sum
}

// volume returns the first entry with the given name, as the kubelet does.
func (p *Pod) volume(name string) *Volume {
	for i := range p.Volumes {
		if p.Volumes[i].Name == name {
			return &p.Volumes[i]
		}
	}
	return nil
}

// Add adds two figures and saturates at the limits of int64. The kubelet adds quantities of
// unlimited size.
func Add(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// timeFor returns the sample time for the first signal. Counts of processes have none.
func timeFor(signals []eviction.Signal) func(*Pod) time.Time {
	condition := eviction.MemoryPressure
	if len(signals) > 0 {
		b, _ := eviction.Builtin(signals[0])
		condition = b.Condition
	}
	switch condition {
	case eviction.MemoryPressure:
		return func(p *Pod) time.Time { return p.Memory.Time }
	case eviction.DiskPressure:
		return func(p *Pod) time.Time { return p.EphemeralStorageTime }
	default:
		return func(*Pod) time.Time { return time.Time{} }
	}
}

// ContainerMeasurements returns the figures of the pod's containers.
func (p *Pod) ContainerMeasurements() []eviction.ContainerMeasurement {
	out := make([]eviction.ContainerMeasurement, len(p.Containers))
	for i := range p.Containers {
		c := &p.Containers[i]
		out[i] = eviction.ContainerMeasurement{
			Name:             c.Name,
			WorkingSetBytes:  c.WorkingSetBytes,
			RootfsUsedBytes:  c.Rootfs.UsedBytes,
			RootfsInodesUsed: c.Rootfs.InodesUsed,
			LogsUsedBytes:    c.Logs.UsedBytes,
			LogsInodesUsed:   c.Logs.InodesUsed,
		}
	}
	return out
}

// VolumeMeasurements returns the figures of the pod's volumes.
func (p *Pod) VolumeMeasurements() []eviction.VolumeMeasurement {
	out := make([]eviction.VolumeMeasurement, len(p.Volumes))
	for i := range p.Volumes {
		v := &p.Volumes[i]
		out[i] = eviction.VolumeMeasurement{Name: v.Name, UsedBytes: v.UsedBytes, InodesUsed: v.InodesUsed}
	}
	return out
}
