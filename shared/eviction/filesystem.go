package eviction

import "slices"

// ContainerFsFrom returns the signal whose filesystem a signal of writable layers is
// about: the images' where they have one of their own that writable layers are on
// too, else the kubelet's. It is false for other signals and for an unknown layout.
func (l Layout) ContainerFsFrom(s Signal) (Signal, bool) {
	var nodeFs, imageFs Signal
	switch s {
	case ContainerFsAvailable:
		nodeFs, imageFs = NodeFsAvailable, ImageFsAvailable
	case ContainerFsInodesFree:
		nodeFs, imageFs = NodeFsInodesFree, ImageFsInodesFree
	default:
		return "", false
	}
	switch l {
	case LayoutShared, LayoutContainerFs:
		return nodeFs, true
	case LayoutImageFs:
		return imageFs, true
	default:
		return "", false
	}
}

// Layouts lists the layouts that the kubelet knows.
func Layouts() []Layout { return []Layout{LayoutShared, LayoutImageFs, LayoutContainerFs} }

// Filesystems returns the signals of filesystems, those together that are the same
// figure of the same filesystem. In an unknown layout each is alone.
func (l Layout) Filesystems() [][]Signal {
	bytes := []Signal{NodeFsAvailable, ImageFsAvailable, ContainerFsAvailable}
	inodes := []Signal{NodeFsInodesFree, ImageFsInodesFree, ContainerFsInodesFree}
	return slices.Concat(l.filesystems(bytes), l.filesystems(inodes))
}

// filesystems puts those of kubelet, images and writable layers together that are
// the same.
func (l Layout) filesystems(of []Signal) [][]Signal {
	switch l {
	case LayoutShared:
		return [][]Signal{of}
	case LayoutImageFs:
		return [][]Signal{{of[0]}, {of[1], of[2]}}
	case LayoutContainerFs:
		return [][]Signal{{of[0], of[2]}, {of[1]}}
	default:
		return [][]Signal{{of[0]}, {of[1]}, {of[2]}}
	}
}

// SameFilesystem returns the signals that are the same figure of the same filesystem
// as s, s among them: nodefs, imagefs and containerfs in this order. A signal that is
// of no filesystem is alone.
func (l Layout) SameFilesystem(s Signal) []Signal {
	for _, signals := range l.Filesystems() {
		if slices.Contains(signals, s) {
			return signals
		}
	}
	return []Signal{s}
}

// ServedWith returns the signals that who does c for s serves as well, s among them,
// in the order of SameFilesystem. Kubelet and images have thresholds of their own also
// where they share a filesystem, and so a figure each; only that for writable layers,
// whose threshold follows from another one, is had from who has that one's.
func (l Layout) ServedWith(s Signal, c Capability) []Signal {
	switch c {
	case CanMeasure, CanRank, CanReclaim:
		return l.SameFilesystem(s)
	case CanObserve:
		if from, ok := l.ContainerFsFrom(s); ok {
			return []Signal{from, s}
		}
	case CanWatch: // all are asked
	}
	return []Signal{s}
}
