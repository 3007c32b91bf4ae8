package policy

import (
	"github.com/evictd/evictd/shared/eviction"
)

// WithContainerFs returns thresholds with those for writable layers derived from
// the filesystem that they share: the images' if images have one of their own
// that writable layers are on too, else the kubelet's
// (UpdateContainerFsThresholds). Configured containerfs thresholds do not stand;
// they are returned as dropped. An unknown layout changes nothing.
//
// It is meant to be called before the first pass that knows the layout. The
// kubelet edits the list while that pass uses it, which so runs with parts of the
// old one.
func WithContainerFs(thresholds []Threshold, layout eviction.Layout) (derived, dropped []Threshold) {
	bytesFrom, inodesFrom := eviction.NodeFsAvailable, eviction.NodeFsInodesFree
	switch layout {
	case eviction.LayoutShared, eviction.LayoutContainerFs:
	case eviction.LayoutImageFs:
		bytesFrom, inodesFrom = eviction.ImageFsAvailable, eviction.ImageFsInodesFree
	default:
		return thresholds, nil
	}
	for _, t := range thresholds {
		if t.Signal == eviction.ContainerFsAvailable || t.Signal == eviction.ContainerFsInodesFree {
			dropped = append(dropped, t)
		} else {
			derived = append(derived, t)
		}
	}
	kept := derived
	for _, slot := range []struct {
		from, to eviction.Signal
		hard     bool
	}{
		{bytesFrom, eviction.ContainerFsAvailable, true},
		{bytesFrom, eviction.ContainerFsAvailable, false},
		{inodesFrom, eviction.ContainerFsInodesFree, true},
		{inodesFrom, eviction.ContainerFsInodesFree, false},
	} {
		if t, ok := last(kept, slot.from, slot.hard); ok {
			t.Signal = slot.to
			derived = append(derived, t)
		}
	}
	return derived, dropped
}

// last finds the last hard or soft threshold of s: a soft one without a grace
// period is hard and comes after the real one.
func last(thresholds []Threshold, s eviction.Signal, hard bool) (found Threshold, ok bool) {
	for _, t := range thresholds {
		if t.Signal == s && t.Hard() == hard {
			found, ok = t, true
		}
	}
	return found, ok
}
