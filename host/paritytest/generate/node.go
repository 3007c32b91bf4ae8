package generate

import (
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/host/internal/why/replay"
)

const gi = 1 << 30

// capacities of a node, in the unit of each signal.
var capacities = map[string]int64{
	memory: 16 * gi, allocatable: 14 * gi,
	nodeFs: 100 * gi, nodeFsInodes: 6553600,
	imageFs: 200 * gi, imageFsInodes: 13107200,
	containerFs: 100 * gi, containerFsInodes: 6553600,
	pids: 32768,
}

// node holds the available amounts of a generated node.
type node struct {
	dice
	layout string
	// levels are points that matter: thresholds, and thresholds with what is to be
	// reclaimed beyond.
	levels    map[string][]int64
	available map[string]int64
	// stamps are the times at which sources were read last.
	stamps map[string]time.Time
	// huge makes figures that no int64 holds.
	huge bool
	// apart: filesystems that are one are reported as if they were not.
	apart bool
}

func newNode(d dice, c *replay.Config, layout string) *node {
	n := &node{dice: d, layout: layout, levels: map[string][]int64{}, available: map[string]int64{}, stamps: map[string]time.Time{}, apart: d.in(25)}
	for _, signal := range signals {
		source := signal
		switch {
		case signal == allocatable && c.EvictionHard[allocatable] == "":
			source = memory
		case signal == containerFs && layout == replay.LayoutImageFs:
			source = imageFs
		case signal == containerFsInodes && layout == replay.LayoutImageFs:
			source = imageFsInodes
		case signal == containerFs:
			source = nodeFs
		case signal == containerFsInodes:
			source = nodeFsInodes
		}
		reclaim := amount(c.EvictionMinimumReclaim[source], capacities[signal])
		for _, text := range []string{c.EvictionHard[source], c.EvictionSoft[source]} {
			if level := amount(text, capacities[signal]); level > 0 {
				n.levels[signal] = append(n.levels[signal], level, level+reclaim)
			}
		}
		n.available[signal] = n.plenty(signal)
	}
	return n
}

// amount returns the amount of a threshold's text; 0 if it is none.
func amount(text string, capacity int64) int64 {
	if text == "" || text == "0%" || text == "100%" {
		return 0
	}
	if strings.HasSuffix(text, "%") {
		value, err := strconv.ParseFloat(strings.TrimRight(text, "%"), 32)
		if err != nil {
			return 0
		}
		return int64(float64(capacity) * float64(float32(value)/100))
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return q.Value()
}

// plenty is more than any sane threshold wants.
func (n *node) plenty(signal string) int64 {
	return capacities[signal] / 100 * int64(n.between(50, 90))
}

// near is a figure around one of the points that matter.
func (n *node) near(signal string) int64 {
	if n.huge && signal != pids && n.in(5) {
		return pick[int64](n.dice, -1, math.MinInt64, math.MaxInt64)
	}
	levels := n.levels[signal]
	if len(levels) == 0 {
		return n.plenty(signal)
	}
	level := pick(n.dice, levels...)
	switch n.IntN(8) {
	case 0:
		return level
	case 1:
		return max(0, level-1)
	case 2:
		return level + 1
	case 3, 4:
		return level / 2
	case 5:
		return level - level/50
	case 6:
		return level + level/50
	default:
		return pick[int64](n.dice, 0, level/4, level/8)
	}
}

// move changes some figures: restless percent of them.
func (n *node) move(restless int) {
	for _, signal := range signals {
		if !n.in(restless) {
			continue
		}
		n.available[signal] = n.plenty(signal)
		if n.in(45) {
			n.available[signal] = n.near(signal)
		}
	}
	if n.in(2) { // more tasks than there may be
		n.available[pids] = -5
	}
	if n.apart {
		return
	}
	one := func(signal, same string) {
		n.available[signal] = n.available[same] * (capacities[signal] / capacities[same])
	}
	switch n.layout {
	case replay.LayoutImageFs:
		n.available[containerFs] = n.available[imageFs]
		n.available[containerFsInodes] = n.available[imageFsInodes]
	case replay.LayoutContainerFs:
		n.available[containerFs] = n.available[nodeFs]
		n.available[containerFsInodes] = n.available[nodeFsInodes]
	default:
		n.available[containerFs] = n.available[nodeFs]
		n.available[containerFsInodes] = n.available[nodeFsInodes]
		one(imageFs, nodeFs)
		one(imageFsInodes, nodeFsInodes)
	}
}

// released returns n after a reclaim that released more or less.
func (n *node) released() *node {
	after := *n
	after.available = map[string]int64{}
	all := n.in(50)
	for _, signal := range signals {
		after.available[signal] = n.available[signal]
		if all || n.in(50) {
			after.available[signal] = n.plenty(signal)
		}
	}
	return &after
}

// stats are n's at now. A source may be stale, without a time, or leave something
// out.
func (n *node) stats(now time.Time) statsapi.NodeStats {
	out := statsapi.NodeStats{
		NodeName: "node-1",
		Memory:   n.memory(memory, now),
		Fs:       n.fs(nodeFs, nodeFsInodes, now),
		Runtime: &statsapi.RuntimeStats{
			ImageFs:     n.fs(imageFs, imageFsInodes, now),
			ContainerFs: n.fs(containerFs, containerFsInodes, now),
		},
		Rlimit:           n.rlimit(now),
		SystemContainers: []statsapi.ContainerStats{{Name: "kubelet"}, {Name: "pods", Memory: n.memory(allocatable, now)}},
	}
	switch n.IntN(60) {
	case 0:
		out.Memory = nil
	case 1:
		out.Fs = nil
	case 2:
		out.Runtime = nil
	case 3:
		out.Rlimit = nil
	case 4:
		out.SystemContainers = nil
	case 5:
		out.SystemContainers[1].Memory = nil
	case 6:
		out.SystemContainers = append(out.SystemContainers, statsapi.ContainerStats{Name: "pods"})
	case 7:
		out.Runtime.ContainerFs = nil
	case 8:
		out.Runtime.ImageFs = nil
	}
	return out
}

// stamp returns the time at which source was read.
func (n *node) stamp(source string, now time.Time) metav1.Time {
	last, was := n.stamps[source]
	at := now.Add(-time.Second).Truncate(time.Second)
	switch k := n.IntN(100); {
	case k < 7 && was:
		at = last
	case k < 9 && was:
		at = last.Add(-10 * time.Second)
	case k < 11:
		return metav1.Time{}
	}
	n.stamps[source] = at
	return metav1.NewTime(at)
}

func (n *node) memory(signal string, now time.Time) *statsapi.MemoryStats {
	available, used := n.available[signal], capacities[signal]-n.available[signal]
	out := &statsapi.MemoryStats{
		Time: n.stamp(signal, now), AvailableBytes: raw(available), UsageBytes: raw(used), WorkingSetBytes: raw(used),
	}
	switch n.IntN(80) {
	case 0:
		out.AvailableBytes = nil
	case 1:
		out.WorkingSetBytes = nil
	case 2:
		out.WorkingSetBytes = count(0)
	}
	return out
}

func (n *node) fs(bytes, inodes string, now time.Time) *statsapi.FsStats {
	out := &statsapi.FsStats{
		Time:           n.stamp(bytes, now),
		AvailableBytes: raw(n.available[bytes]), CapacityBytes: count(capacities[bytes]),
		InodesFree: raw(n.available[inodes]), Inodes: count(capacities[inodes]),
	}
	switch n.IntN(100) {
	case 0:
		out.AvailableBytes = nil
	case 1:
		out.CapacityBytes = nil
	case 2:
		out.InodesFree = nil
	case 3:
		out.Inodes = nil
	}
	return out
}

func (n *node) rlimit(now time.Time) *statsapi.RlimitStats {
	limit, running := capacities[pids], capacities[pids]-n.available[pids]
	out := &statsapi.RlimitStats{Time: n.stamp(pids, now), MaxPID: &limit, NumOfRunningProcesses: &running}
	switch n.IntN(80) {
	case 0:
		out.MaxPID = nil
	case 1:
		out.NumOfRunningProcesses = nil
	}
	return out
}

func count(n int64) *uint64 {
	u := uint64(max(0, n))
	return &u
}
