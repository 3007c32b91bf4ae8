package eviction

import (
	"iter"
	"slices"
	"strings"
)

// Capability is a bit set of the things that a plugin can do for a signal.
type Capability uint8

// The capabilities.
const (
	CanObserve Capability = 1 << iota
	CanMeasure
	CanWatch
	CanRank
	CanReclaim
)

// capabilityNames are the names used in the configuration, in /status and in logs, in bit order.
var capabilityNames = [...]string{"observe", "measure", "watch", "rank", "reclaim"}

// AllCapabilities returns the set of all capabilities.
func AllCapabilities() Capability { return 1<<len(capabilityNames) - 1 }

// Has reports whether c includes all of d.
func (c Capability) Has(d Capability) bool { return c&d == d }

// Each yields the capabilities in c one by one, in a fixed order.
func (c Capability) Each() iter.Seq[Capability] {
	return func(yield func(Capability) bool) {
		for n := range capabilityNames {
			if one := Capability(1) << n; c.Has(one) && !yield(one) {
				return
			}
		}
	}
}

// Names returns the names of the capabilities in c, in the order of Each.
func (c Capability) Names() []string {
	var names []string
	for n, name := range capabilityNames {
		if c.Has(1 << n) {
			names = append(names, name)
		}
	}
	return names
}

// String returns the names in c, separated by commas.
func (c Capability) String() string { return strings.Join(c.Names(), ",") }

// CapabilityNamed returns the capability with the given name, 0 if there is none.
func CapabilityNamed(name string) Capability {
	if n := slices.Index(capabilityNames[:], name); n >= 0 {
		return 1 << n
	}
	return 0
}
