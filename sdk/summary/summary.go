package summary

import (
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// Summary is the part of a decoded stats summary that eviction needs. It is shared between
// calls, so callers must not change it.
//
// A missing section is the same as one whose figures are all missing, as in the kubelet.
type Summary struct {
	Node Node
	// Pods are in the source's order.
	Pods []Pod

	byUID map[string]int
}

// Node is the section about the whole node.
type Node struct {
	Name             string
	Memory           Memory
	SystemContainers []SystemContainer
	// Fs is the kubelet's filesystem, ImageFs that of images and ContainerFs that of writable
	// layers.
	Fs          Filesystem
	ImageFs     Filesystem
	ContainerFs Filesystem
	Rlimit      Rlimit
}

// SystemContainer is a cgroup that is not a pod's. "pods" is the cgroup of all pods.
type SystemContainer struct {
	Name   string
	Memory Memory
}

// Memory is the memory of a node, pod or container.
type Memory struct {
	// Present: the source has this section, even if figures are missing in it.
	Present         bool
	Time            time.Time
	AvailableBytes  eviction.Figure
	WorkingSetBytes eviction.Figure
}

// Filesystem is the free space and the capacity of a filesystem.
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

// Pod is the section about one pod.
type Pod struct {
	UID              string
	Namespace        string
	Name             string
	Memory           Memory
	EphemeralStorage Use
	// EphemeralStorageTime is the sample time of EphemeralStorage.
	EphemeralStorageTime time.Time
	Processes            eviction.Figure
	// Containers and Volumes are in the source's order.
	Containers []Container
	Volumes    []Volume
	// Impossible is why a figure of its filesystems is missing that cannot be, "" if there is none.
	Impossible string
}

// Container is the section about one container.
type Container struct {
	Name            string
	WorkingSetBytes eviction.Figure
	// Rootfs is the writable layer.
	Rootfs Use
	Logs   Use
}

// Volume is the section about one volume.
type Volume struct {
	Name string
	Use
}

// Use is the usage of a filesystem.
type Use struct {
	UsedBytes  eviction.Figure
	InodesUsed eviction.Figure
}

// Pod returns the stats of the pod with a UID, nil if there are none. If there are several
// entries, the last one counts, as in the kubelet (cachedStatsFunc).
func (s *Summary) Pod(uid string) *Pod {
	i, ok := s.byUID[uid]
	if !ok {
		return nil
	}
	return &s.Pods[i]
}
