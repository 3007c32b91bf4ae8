package policy

import (
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// ContainerFs is the outcome of a list of thresholds once the layout is known.
type ContainerFs struct {
	// First holds the thresholds for the pass that finds the layout: configured thresholds for
	// writable layers are replaced, missing ones not yet there. The check after that pass's
	// reclaim already takes Derived.
	First []Threshold
	// Derived holds the thresholds for every later pass. It starts with First.
	Derived []Threshold
	// Dropped holds the configured thresholds that are not in force, for a warning.
	Dropped []Threshold
}

// WithContainerFs gives writable layers the thresholds of the filesystem that
// they share: the images' if images have one of their own that writable layers
// are on too, else the kubelet's (UpdateContainerFsThresholds). A configured
// threshold for writable layers is replaced where it stands, or left out if that
// filesystem has none. Only of two hard ones, which a soft one without a grace
// period makes possible, the former stays, as in the kubelet. An unknown layout
// changes nothing.
//
// The kubelet replaces and appends in turn while the pass that found the layout
// holds the list. That pass misses what is appended, and also what is replaced
// after the list had to move to make room: an accident, which is not reproduced.
func WithContainerFs(thresholds []Threshold, layout eviction.Layout) ContainerFs {
	var out ContainerFs
	replaced := slices.Clone(thresholds)
	gone := make([]bool, len(thresholds))
	var appended []Threshold
	for _, to := range eviction.SignalsOn(eviction.ContainerFs) {
		source, known := layout.ContainerFsFrom(to)
		if !known {
			return ContainerFs{First: thresholds, Derived: thresholds}
		}
		for _, hard := range []bool{true, false} {
			from, at := last(thresholds, source, hard), last(thresholds, to, hard)
			var derived Threshold
			if from >= 0 {
				derived = thresholds[from]
				derived.Signal = to
			}
			switch {
			case at >= 0:
				out.Dropped = append(out.Dropped, thresholds[at])
				replaced[at], gone[at] = derived, from < 0
			case from >= 0:
				appended = append(appended, derived)
			}
		}
	}
	for i, t := range replaced {
		if !gone[i] {
			out.First = append(out.First, t)
		}
	}
	out.Derived = slices.Concat(out.First, appended)
	return out
}

// last returns where the last hard or soft threshold of s is, -1 if there is
// none: a soft one without a grace period is hard and comes after the real one.
func last(thresholds []Threshold, s eviction.Signal, hard bool) int {
	for i, t := range slices.Backward(thresholds) {
		if t.Signal == s && t.Hard() == hard {
			return i
		}
	}
	return -1
}
