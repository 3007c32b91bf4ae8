package eviction

import (
	"fmt"
	"time"
)

// The limits on a sample's time, by either clock. Clocks are adjusted a little now and
// then, and the kubelet's figures of disks may be a minute old.
const (
	MaxSampleAge   = 2 * time.Minute
	MaxSampleAhead = time.Second
)

// CheckSampleAge returns an error if a figure of the given age is invalid, nil if it is usable.
// The age is negative for a time in the future. Sample times decide which figure is newer: one
// from the future would make the host wait until newer figures arrive, and an old one taken as
// current would be acted on again and again.
func CheckSampleAge(age time.Duration) error {
	switch {
	case age > MaxSampleAge:
		return fmt.Errorf("the figure is %v old, want at most %v", age.Round(time.Second), MaxSampleAge)
	case age < -MaxSampleAhead:
		return fmt.Errorf("the figure is of a time %v from now, want at most %v", (-age).Round(time.Second), MaxSampleAhead)
	}
	return nil
}
