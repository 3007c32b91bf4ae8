package paritytest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A tally counts the scenarios that a rule affected.
type tally map[string]int

// add counts each rule once.
func (t tally) add(rules []string) {
	slices.Sort(rules)
	for _, r := range slices.Compact(rules) {
		t[r]++
	}
}

// String has a line for each rule.
func (t tally) String() string {
	var b strings.Builder
	for _, r := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, "%8d  %s\n", t[r], r)
	}
	return b.String()
}
