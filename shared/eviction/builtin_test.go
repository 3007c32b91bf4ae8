package eviction_test

import (
	"slices"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

func TestEveryBuiltinSignalHasAPlugin(t *testing.T) {
	for _, s := range eviction.BuiltinSignals() {
		b, ok := eviction.Builtin(s)
		if !ok || b.Signal != s || b.Plugin == "" || !slices.Contains(eviction.SignalsOf(b.Plugin), s) {
			t.Errorf("%s has the row %+v", s, b)
		}
		if onDisk := b.Condition == eviction.DiskPressure; onDisk != (b.Filesystem != "") || onDisk && len(eviction.SignalsOn(b.Filesystem)) != 2 {
			t.Errorf("%s is on the filesystem %q, which has %v", s, b.Filesystem, eviction.SignalsOn(b.Filesystem))
		}
	}
	if b, ok := eviction.Builtin("acme.example/spare"); ok || b.Signal != "" || b.Condition != "" {
		t.Errorf("a custom signal has the row %+v", b)
	}
	if got := eviction.SignalsOf("acme"); len(got) > 0 {
		t.Errorf("a custom plugin has the signals %v", got)
	}
}

func TestSameResource(t *testing.T) {
	memory := []eviction.Signal{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable}
	for s, want := range map[eviction.Signal][]eviction.Signal{
		eviction.MemoryAvailable:            memory,
		eviction.AllocatableMemoryAvailable: memory,
		eviction.PIDAvailable:               {eviction.PIDAvailable},
		eviction.ImageFsAvailable:           {eviction.ImageFsAvailable},
		"acme.example/spare":                {"acme.example/spare"},
	} {
		if got := eviction.SameResource(s); !slices.Equal(got, want) {
			t.Errorf("%s is the resource of %v, want %v", s, got, want)
		}
	}
}

func TestCheapToMeasure(t *testing.T) {
	for c, want := range map[eviction.Condition]bool{
		eviction.MemoryPressure: true, eviction.PIDPressure: true, eviction.DiskPressure: false, "acme.example/Spare": false, "": false,
	} {
		if c.CheapToMeasure() != want {
			t.Errorf("%q is cheap to measure: %v, want %v", c, !want, want)
		}
	}
}
