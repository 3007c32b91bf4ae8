// Package capability has the capabilities of Linux by name, and sets of them. It
// neither asks for those of a process nor changes them.
package capability

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/moby/sys/capability"
)

const prefix = "CAP_"

// A Set is a set of capabilities, one bit each by the kernel's number.
type Set uint64

// Parse returns the set of those names, which may have the prefix CAP_ or not and
// be in any case. The error joins one for each name that is none.
func Parse(list []string) (Set, error) {
	var set Set
	var errs []error
	for i, given := range list {
		name := strings.TrimPrefix(strings.ToLower(given), strings.ToLower(prefix))
		n := slices.IndexFunc(capability.ListKnown(), func(c capability.Cap) bool { return c.String() == name })
		if n < 0 {
			errs = append(errs, fmt.Errorf("[%d]: %q is no capability, want one of capabilities(7) such as %q", i, given, prefix+"SYS_ADMIN"))
			continue
		}
		set |= 1 << n
	}
	return set, errors.Join(errs...)
}

// Of is Parse for names that are right.
func Of(list ...string) Set {
	set, err := Parse(list)
	if err != nil {
		panic(err)
	}
	return set
}

// Has reports whether the capability of that number is in s.
func (s Set) Has(n int) bool { return s&(1<<n) != 0 }

// Numbers are the kernel's numbers of what is in s.
func (s Set) Numbers() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := range 64 {
			if s.Has(n) && !yield(n) {
				return
			}
		}
	}
}

// String lists the names with their prefix.
func (s Set) String() string {
	if s == 0 {
		return "none"
	}
	var all []string
	for n := range s.Numbers() {
		if n < len(capability.ListKnown()) {
			all = append(all, prefix+strings.ToUpper(capability.Cap(n).String()))
		} else {
			all = append(all, fmt.Sprint(n))
		}
	}
	return strings.Join(all, ",")
}
