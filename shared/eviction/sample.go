package eviction

import (
	"fmt"
	"time"
)

// The times that a sample may have, by either clock. Clocks are set a little now and
// then, and the kubelet's figures of disks may be a minute old.
const (
	MaxSampleAge   = 2 * time.Minute
	MaxSampleAhead = time.Second
)

// CheckSampleAge returns why a figure of that age is none, below zero for one of a time
// that has not come yet. It is nil for a time that can be. Whether a figure is newer than
// another is decided by its time: one that is from the future would have its signal wait
// for figures that are newer, and an old one taken to be of now be acted on again and again.
func CheckSampleAge(age time.Duration) error {
	switch {
	case age > MaxSampleAge:
		return fmt.Errorf("the figure is %v old, want at most %v", age.Round(time.Second), MaxSampleAge)
	case age < -MaxSampleAhead:
		return fmt.Errorf("the figure is of a time %v from now, want at most %v", (-age).Round(time.Second), MaxSampleAhead)
	}
	return nil
}
