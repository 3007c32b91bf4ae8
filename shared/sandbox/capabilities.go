package sandbox

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/moby/sys/capability"
)

// capabilityPrefix begins the names of capabilities; it is optional in the configuration.
const capabilityPrefix = "CAP_"

// Capabilities is a set of Linux capabilities; bit n is capability number n of the kernel.
type Capabilities uint64

// ParseCapabilities returns the set of the named capabilities and the names that are unknown.
// Names are case-insensitive, with or without the prefix CAP_.
func ParseCapabilities(names []string) (set Capabilities, unknown []string) {
	for _, given := range names {
		name := strings.TrimPrefix(strings.ToLower(given), strings.ToLower(capabilityPrefix))
		n := slices.IndexFunc(capability.ListKnown(), func(c capability.Cap) bool { return c.String() == name })
		if n < 0 {
			unknown = append(unknown, given)
			continue
		}
		set |= 1 << n
	}
	return set, unknown
}

// Has reports whether c is in s.
func (s Capabilities) Has(c capability.Cap) bool { return s&(1<<c) != 0 }

// Each iterates over the capabilities in s.
func (s Capabilities) Each() iter.Seq[capability.Cap] {
	return func(yield func(capability.Cap) bool) {
		for c := range capability.Cap(64) {
			if s.Has(c) && !yield(c) {
				return
			}
		}
	}
}

// String returns the names with their prefix, or a number where there is no name.
func (s Capabilities) String() string {
	if s == 0 {
		return "none"
	}
	var all []string
	for c := range s.Each() {
		if int(c) < len(capability.ListKnown()) {
			all = append(all, capabilityPrefix+strings.ToUpper(c.String()))
		} else {
			all = append(all, fmt.Sprint(int(c)))
		}
	}
	return strings.Join(all, ",")
}

// MarshalText returns String, for the status.
func (s Capabilities) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses what String returns, except numbers.
func (s *Capabilities) UnmarshalText(text []byte) error {
	*s, _ = ParseCapabilities(strings.Split(string(text), ",")) // "none" is no name
	return nil
}

// heldCapabilities returns the capabilities of the calling thread, also as a set.
func heldCapabilities() (capability.Capabilities, Capabilities, error) {
	held, err := capability.NewPid2(0)
	if err == nil {
		err = held.Load()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read capabilities: %w", err)
	}
	var set Capabilities
	for c := range capability.Cap(64) {
		if held.Get(capability.PERMITTED, c) {
			set |= 1 << c
		}
	}
	return held, set, nil
}
