package summary

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"sigs.k8s.io/json"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
)

const (
	// maxBytes is the maximum size of a summary. A kubelet with 5000 pods returns 10 MB.
	maxBytes = 64 << 20
	// maxCommas bounds what a summary takes once it is decoded: an entry without a figure takes five
	// bytes in the JSON and hundreds in memory. A summary of 5000 pods has 400,000.
	maxCommas = 1 << 19
)

// Stats is a decoded summary. It is immutable.
type Stats struct {
	node *statsapi.NodeStats
	pods map[string]*pod
}

// A pod has the figures of one pod, without its usage of signals.
type pod struct {
	eviction.Measurement

	// wrong is why a figure of a filesystem is missing that cannot be.
	wrong error
	// memory and disk are sample times.
	memory, disk time.Time
}

// podStats is the part of statsapi.PodStats that counts: to decode the rest, with a time in each
// section, takes twice as long.
type podStats struct {
	PodRef     statsapi.PodReference `json:"podRef"`
	Memory     *memoryStats          `json:"memory"`
	Containers []struct {
		Name   string       `json:"name"`
		Memory *memoryStats `json:"memory"`
		Rootfs *fsStats     `json:"rootfs"`
		Logs   *fsStats     `json:"logs"`
	} `json:"containers"`
	Volumes []struct {
		fsStats

		Name string `json:"name"`
	} `json:"volume"`
	EphemeralStorage *struct {
		fsStats

		Time time.Time `json:"time"`
	} `json:"ephemeral-storage"`
	ProcessStats *statsapi.ProcessStats `json:"process_stats"`
}

type memoryStats struct {
	Time            time.Time `json:"time"`
	WorkingSetBytes *uint64   `json:"workingSetBytes"`
}

type fsStats struct {
	CapacityBytes *uint64 `json:"capacityBytes"`
	UsedBytes     *uint64 `json:"usedBytes"`
	Inodes        *uint64 `json:"inodes"`
	InodesUsed    *uint64 `json:"inodesUsed"`
}

// Decode decodes the JSON of a summary. A value that the kubelet's types cannot hold is an error, not
// a missing figure, since a missing figure would end the pressure. For the same reason JSON without a
// node, such as an error object, is an error. Of several entries of a pod the last one counts, as in
// the kubelet (cachedStatsFunc).
func Decode(data []byte) (*Stats, error) {
	if n := bytes.Count(data, []byte(",")); n > maxCommas {
		return nil, fmt.Errorf("summary has %d values, want at most %d", n, maxCommas)
	}
	var whole struct {
		Node *statsapi.NodeStats `json:"node"`
		Pods []podStats          `json:"pods"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &whole); err != nil {
		return nil, fmt.Errorf("summary: %w", err)
	}
	if whole.Node == nil {
		return nil, errors.New("summary: node: missing")
	}
	s := &Stats{node: whole.Node, pods: make(map[string]*pod, len(whole.Pods))}
	for i := range whole.Pods {
		p := whole.Pods[i].figures()
		s.pods[p.UID] = p
	}
	return s, nil
}

// Observe returns the observation of a signal by the kubelet's formulas (makeSignalObservations). It
// is absent if a required figure is missing. Arithmetic wraps around like the kubelet's.
func (s *Stats) Observe(signal eviction.Signal) eviction.Observation {
	n := s.node
	switch b, _ := eviction.Builtin(signal); {
	case signal == eviction.MemoryAvailable:
		return observeMemory(signal, n.Memory)
	case signal == eviction.AllocatableMemoryAvailable:
		return observeMemory(signal, podsMemory(n))
	case signal == eviction.PIDAvailable:
		return observePIDs(n.Rlimit)
	case b.Filesystem == eviction.NodeFs:
		return observeFilesystem(signal, b.Unit, n.Fs)
	case n.Runtime == nil:
		return eviction.Observation{Signal: signal, State: eviction.Absent}
	case b.Filesystem == eviction.ImageFs:
		return observeFilesystem(signal, b.Unit, n.Runtime.ImageFs)
	default:
		return observeFilesystem(signal, b.Unit, n.Runtime.ContainerFs)
	}
}

// observed returns the observation of figures, each of which may be missing.
func observed(signal eviction.Signal, available, capacity eviction.Figure, at metav1.Time) eviction.Observation {
	if !available.OK || !capacity.OK {
		return eviction.Observation{Signal: signal, State: eviction.Absent}
	}
	return eviction.Observation{Signal: signal, State: eviction.Observed, Available: available.Value, Capacity: capacity.Value, Time: at.Time}
}

// observeMemory uses the sum of available and used memory as the capacity, since a summary does
// not contain the cgroup's limit.
func observeMemory(signal eviction.Signal, m *statsapi.MemoryStats) eviction.Observation {
	if m == nil {
		return eviction.Observation{Signal: signal, State: eviction.Absent}
	}
	available, used := figure(m.AvailableBytes), figure(m.WorkingSetBytes)
	o := observed(signal, available, eviction.Figure{Value: available.Value + used.Value, OK: used.OK}, m.Time)
	if o.State == eviction.Observed {
		o.Components = []eviction.Component{{Name: "working_set", Value: used.Value}}
	}
	return o
}

func observePIDs(r *statsapi.RlimitStats) eviction.Observation {
	if r == nil || r.MaxPID == nil || r.NumOfRunningProcesses == nil {
		return eviction.Observation{Signal: eviction.PIDAvailable, State: eviction.Absent}
	}
	running := *r.NumOfRunningProcesses
	o := observed(eviction.PIDAvailable, eviction.Some(*r.MaxPID-running), eviction.Some(*r.MaxPID), r.Time)
	o.Components = []eviction.Component{{Name: "running", Value: running}}
	return o
}

func observeFilesystem(signal eviction.Signal, unit eviction.Unit, f *statsapi.FsStats) eviction.Observation {
	switch {
	case f == nil:
		return eviction.Observation{Signal: signal, State: eviction.Absent}
	case unit == eviction.UnitInodes:
		return observed(signal, figure(f.InodesFree), figure(f.Inodes), f.Time)
	default:
		return observed(signal, figure(f.AvailableBytes), figure(f.CapacityBytes), f.Time)
	}
}

// podsMemory returns the memory of the first system container named "pods", nil if there is none.
func podsMemory(n *statsapi.NodeStats) *statsapi.MemoryStats {
	for i := range n.SystemContainers {
		if n.SystemContainers[i].Name == statsapi.SystemContainerPods {
			return n.SystemContainers[i].Memory
		}
	}
	return nil
}

// figure returns a figure of the summary. The kubelet converts it to int64: beyond that it is negative.
func figure(v *uint64) eviction.Figure {
	if v == nil {
		return eviction.Figure{}
	}
	return eviction.Some(int64(*v))
}

// Measure calls emit for each pod of req, in order. The layout decides what counts for signals of
// filesystems. Usage has 0 where figures are missing, as in the kubelet.
func (s *Stats) Measure(req eviction.MeasureRequest, layout eviction.Layout, emit func(eviction.Measurement)) error {
	disks := ""
	for _, signal := range req.Signals {
		if b, _ := eviction.Builtin(signal); b.Filesystem != "" {
			disks = string(signal)
		}
	}
	if disks != "" && layout == 0 {
		return fmt.Errorf("measure %s: the layout of the node's filesystems is not known", disks)
	}
	for i := range req.Pods {
		row := &req.Pods[i]
		p := s.pods[row.UID]
		if p == nil {
			emit(eviction.Measurement{UID: row.UID, State: eviction.NoStats})
			continue
		}
		if p.wrong != nil && disks != "" {
			emit(eviction.Measurement{UID: row.UID, Err: "the summary says " + p.wrong.Error()})
			continue
		}
		m := p.Measurement
		m.Usage = make([]eviction.SignalUsage, 0, len(req.Signals))
		for _, signal := range req.Signals {
			m.Usage = append(m.Usage, eviction.SignalUsage{Signal: signal, Value: usage(&m, signal, layout, row.Volumes)})
		}
		m.Time = p.sampledAt(req.Signals)
		if req.Detail != eviction.DetailContainers {
			m.Containers, m.Volumes = nil, nil
		}
		emit(m)
	}
	return nil
}

// figures returns the figures of a pod.
func (s *podStats) figures() *pod {
	p := &pod{Measurement: eviction.Measurement{UID: s.PodRef.UID, State: eviction.Measured}}
	if s.Memory != nil { // a pod whose memory is reported at all uses none without a figure (memoryUsage)
		p.WorkingSetBytes, p.memory = eviction.Some(figure(s.Memory.WorkingSetBytes).Value), s.Memory.Time
	}
	if s.ProcessStats != nil {
		p.Processes = figure(s.ProcessStats.ProcessCount)
	}
	if s.EphemeralStorage != nil { // the sum of a pod may be on several filesystems
		p.EphemeralStorageUsedBytes, p.disk = figure(s.EphemeralStorage.UsedBytes), s.EphemeralStorage.Time
	}
	p.Containers = make([]eviction.ContainerMeasurement, len(s.Containers))
	for i := range s.Containers {
		c, to := &s.Containers[i], &p.Containers[i]
		to.Name = c.Name
		if c.Memory != nil {
			to.WorkingSetBytes = figure(c.Memory.WorkingSetBytes)
		}
		to.RootfsUsedBytes, to.RootfsInodesUsed = p.take(c.Rootfs)
		to.LogsUsedBytes, to.LogsInodesUsed = p.take(c.Logs)
	}
	p.Volumes = make([]eviction.VolumeMeasurement, len(s.Volumes))
	for i := range s.Volumes {
		v, to := &s.Volumes[i], &p.Volumes[i]
		to.Name = v.Name
		to.UsedBytes, to.InodesUsed = p.take(&v.fsStats)
	}
	return p
}

// take returns the usage of a filesystem. What cannot be a part of it is missing.
func (p *pod) take(f *fsStats) (used, inodes eviction.Figure) {
	if f == nil {
		return used, inodes
	}
	used, inodes = figure(f.UsedBytes), figure(f.InodesUsed)
	if err := (eviction.Whole{Name: "the capacity of its filesystem", Size: figure(f.CapacityBytes).Value}).Check(used.Value); err != nil {
		used, p.wrong = eviction.Figure{}, err
	}
	if err := (eviction.Whole{Name: "the inodes of its filesystem", Size: figure(f.Inodes).Value}).Check(inodes.Value); err != nil {
		inodes, p.wrong = eviction.Figure{}, err
	}
	return used, inodes
}

// usage returns the figure by which a signal ranks pods (memoryUsage, processUsage, podDiskUsage).
// volumes are those of the pod's row.
func usage(m *eviction.Measurement, signal eviction.Signal, layout eviction.Layout, volumes []eviction.Volume) (sum int64) {
	b, _ := eviction.Builtin(signal)
	if b.Condition == eviction.MemoryPressure {
		return m.WorkingSetBytes.Value
	}
	if b.Condition == eviction.PIDPressure {
		return m.Processes.Value
	}
	add := func(counts bool, used, inodes eviction.Figure) {
		if b.Unit == eviction.UnitInodes {
			used = inodes
		}
		if counts {
			sum = figures.Add(sum, used.Value)
		}
	}
	parts := figures.PartsOf(signal, layout)
	for i := range m.Containers {
		c := &m.Containers[i]
		add(parts.Rootfs, c.RootfsUsedBytes, c.RootfsInodesUsed)
		add(parts.Logs, c.LogsUsedBytes, c.LogsInodesUsed)
	}
	for _, row := range volumes {
		for i := range m.Volumes {
			if v := &m.Volumes[i]; v.Name == row.Name { // the first entry counts, as in the kubelet
				add(parts.Volumes && row.CountsForRanking, v.UsedBytes, v.InodesUsed)
				break
			}
		}
	}
	return sum
}

// sampledAt returns the sample time for the first signal. Counts of processes have none.
func (p *pod) sampledAt(signals []eviction.Signal) time.Time {
	condition := eviction.MemoryPressure
	if len(signals) > 0 {
		b, _ := eviction.Builtin(signals[0])
		condition = b.Condition
	}
	if condition == eviction.MemoryPressure {
		return p.memory
	}
	if condition == eviction.DiskPressure {
		return p.disk
	}
	return time.Time{}
}
