package eviction

import (
	"slices"
	"testing"
)

func TestCapabilityNames(t *testing.T) {
	if got := (CanObserve | CanRank).String(); got != "observe,rank" {
		t.Errorf("observe and rank are %q", got)
	}
	if got := Capability(0).String(); got != "" {
		t.Errorf("no capability is %q", got)
	}
	all := slices.Collect(AllCapabilities().Each())
	if want := []Capability{CanObserve, CanMeasure, CanWatch, CanRank, CanReclaim}; !slices.Equal(all, want) {
		t.Errorf("all are %v, want %v", all, want)
	}
	for _, c := range all {
		if CapabilityNamed(c.String()) != c {
			t.Errorf("%q does not name %v", c.String(), c)
		}
	}
	for _, name := range []string{"", "evict", "observe,rank"} {
		if c := CapabilityNamed(name); c != 0 {
			t.Errorf("%q names %v, want nothing", name, c)
		}
	}
}
