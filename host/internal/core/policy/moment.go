package policy

import (
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A Moment is a point in time on the clocks that samples have. BootNanos is
// CLOCK_BOOTTIME, 0 if it is not known; it decides where both sides have it, since
// it is never set.
type Moment struct {
	Time      time.Time `json:"time"`
	BootNanos int64     `json:"bootNanos,omitempty"`
}

func momentOf(o eviction.Observation) Moment { return Moment{Time: o.Time, BootNanos: o.BootNanos} }

// after reports whether m is later than other. A sample without time counts as
// new each time (thresholdsUpdatedStats).
func (m Moment) after(other Moment) bool {
	if m.BootNanos != 0 && other.BootNanos != 0 {
		return m.BootNanos > other.BootNanos
	}
	return m.Time.IsZero() || m.Time.After(other.Time)
}

// since returns the time from other to m.
func (m Moment) since(other Moment) time.Duration {
	if m.BootNanos != 0 && other.BootNanos != 0 {
		return time.Duration(m.BootNanos - other.BootNanos)
	}
	return m.Time.Sub(other.Time)
}

func (m Moment) isZero() bool { return m == Moment{} }
