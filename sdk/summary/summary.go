package summary

import (
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// Summary is a decoded summary: what eviction needs of it. It is shared between
// calls, so callers must not change it.
//
// A missing section reads as a section whose figures are all missing: the kubelet
// makes no difference between the two.
type Summary struct {
	Node Node
	// Pods are in the source's order.
	Pods []Pod

	byUID map[string]int
}

// Node is the part about the whole node.
type Node struct {
	Name             string
	Memory           Memory
	SystemContainers []SystemContainer
	// Fs is the filesystem of the kubelet, ImageFs that of images and
	// ContainerFs that of writable layers.
	Fs          Filesystem
	ImageFs     Filesystem
	ContainerFs Filesystem
	Rlimit      Rlimit
}

// SystemContainer is a cgroup that is not a pod's. "pods" is that of all pods.
type SystemContainer struct {
	Name   string
	Memory Memory
}

// Memory is the memory of a node, pod or container.
type Memory struct {
	// Present: the source has this part, whatever is missing in it.
	Present         bool
	Time            time.Time
	AvailableBytes  eviction.Figure
	WorkingSetBytes eviction.Figure
}

// Filesystem is the room on a filesystem.
type Filesystem struct {
	Time           time.Time
	AvailableBytes eviction.Figure
	CapacityBytes  eviction.Figure
	InodesFree     eviction.Figure
	Inodes         eviction.Figure
}

// Rlimit holds the limit on tasks (threads) of the node and their number.
type Rlimit struct {
	Time    time.Time
	MaxPID  eviction.Figure
	Running eviction.Figure
}

// Pod is the part about one pod.
type Pod struct {
	UID              string
	Namespace        string
	Name             string
	Memory           Memory
	EphemeralStorage Use
	// EphemeralStorageTime is the time of that sample.
	EphemeralStorageTime time.Time
	Processes            eviction.Figure
	// Containers and Volumes are in the source's order.
	Containers []Container
	Volumes    []Volume
}

// Container is the part about one container.
type Container struct {
	Name            string
	WorkingSetBytes eviction.Figure
	// Rootfs is the writable layer.
	Rootfs Use
	Logs   Use
}

// Volume is the part about one volume.
type Volume struct {
	Name string
	Use
}

// Use is the usage of a filesystem.
type Use struct {
	UsedBytes  eviction.Figure
	InodesUsed eviction.Figure
}

// Pod returns the stats of the pod with a uid, nil if there are none. Of several
// entries the last one counts, as in the kubelet (cachedStatsFunc).
func (s *Summary) Pod(uid string) *Pod {
	i, ok := s.byUID[uid]
	if !ok {
		return nil
	}
	return &s.Pods[i]
}
