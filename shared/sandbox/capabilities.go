package sandbox

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/moby/sys/capability"
)

// capabilityPrefix begins the names of capabilities; it may be left out.
const capabilityPrefix = "CAP_"

// Capabilities are a set of those of Linux, one bit each by the kernel's number.
type Capabilities uint64

// ParseCapabilities returns the set of those names, which may have the prefix CAP_ or
// not and be in any case, and the names that are none.
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

// String lists the names with their prefix, or numbers where there is no name.
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

// MarshalText is String, for the status.
func (s Capabilities) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what String writes, but for numbers.
func (s *Capabilities) UnmarshalText(text []byte) error {
	*s, _ = ParseCapabilities(strings.Split(string(text), ",")) // "none" is no name
	return nil
}

// heldCapabilities returns those of the calling thread, and them as a set.
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
