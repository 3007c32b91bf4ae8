package policy

import (
	"github.com/evictd/evictd/shared/eviction"
)

// Relieved returns the signals that the end of a victim of t relieves, and what it
// used of each if it used so much of t's signal: memory of the node and of its pods
// alike, a filesystem by all its names. How many inodes go with so many bytes is not
// known.
func Relieved(t Threshold, layout eviction.Layout, use eviction.Figure) map[eviction.Signal]eviction.Figure {
	frees := map[eviction.Signal]eviction.Figure{}
	switch {
	case isMemory(t.Signal):
		frees[eviction.MemoryAvailable], frees[eviction.AllocatableMemoryAvailable] = use, use
	default:
		for _, s := range layout.SameFilesystem(t.Signal) {
			frees[s] = use
			if other, ok := otherKind[s]; ok {
				frees[other] = eviction.Figure{}
			}
		}
	}
	return frees
}

// otherKind has the inodes of a filesystem for its room, and the other way round.
var otherKind = map[eviction.Signal]eviction.Signal{
	eviction.NodeFsAvailable: eviction.NodeFsInodesFree, eviction.NodeFsInodesFree: eviction.NodeFsAvailable,
	eviction.ImageFsAvailable: eviction.ImageFsInodesFree, eviction.ImageFsInodesFree: eviction.ImageFsAvailable,
	eviction.ContainerFsAvailable: eviction.ContainerFsInodesFree, eviction.ContainerFsInodesFree: eviction.ContainerFsAvailable,
}
