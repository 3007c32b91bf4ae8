package policy

import (
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// Defined reports whether it is known what t's signal is. Otherwise t cannot be in
// force: it is of a custom signal that no plugin brings.
func (t Threshold) Defined() bool { return t.Definition() != eviction.Definition{} }

// Define returns thresholds with those of custom signals defined as definitions has
// it, and undefined if it has nothing.
func Define(thresholds []Threshold, definitions map[eviction.Signal]eviction.Definition) []Threshold {
	out := slices.Clone(thresholds)
	for i := range out {
		out[i].Custom = nil
		if _, builtin := eviction.Builtin(out[i].Signal); builtin {
			continue
		}
		if d, ok := definitions[out[i].Signal]; ok {
			out[i].Custom = &d
		}
	}
	return out
}
