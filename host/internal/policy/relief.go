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
	if b, _ := eviction.Builtin(t.Signal); b.Filesystem == "" {
		for _, s := range eviction.SameResource(t.Signal) {
			frees[s] = use
		}
		return frees
	}
	for _, s := range layout.SameFilesystem(t.Signal) {
		b, _ := eviction.Builtin(s)
		for _, figure := range eviction.SignalsOn(b.Filesystem) {
			frees[figure] = eviction.Figure{}
		}
		frees[s] = use
	}
	return frees
}
