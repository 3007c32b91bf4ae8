package keep

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/record"
	"github.com/evictd/evictd/shared/eviction"
)

// samples are kept of each signal, one a second: ten minutes.
const samples = 600

// series are the last samples of signals.
type series map[eviction.Signal]*ring

// A ring has samples, one for each second. A second without one has that of the second before.
type ring struct {
	last   int64 // in seconds of Unix time
	values []int64
}

// add enters what was observed at a time. The last of a second counts.
func (s series) add(at time.Time, o eviction.Observation) {
	if o.State != eviction.Observed {
		return
	}
	r, second := s[o.Signal], at.Unix()
	if r != nil && second < r.last && r.last-second < samples {
		return // what a background action was begun with
	}
	if r == nil || second-r.last >= samples || second < r.last {
		s[o.Signal] = &ring{last: second, values: []int64{o.Available}}
		return
	}
	for ; r.last < second; r.last++ {
		r.values = append(r.values, r.values[len(r.values)-1])
	}
	r.values = slices.Clone(r.values[max(0, len(r.values)-samples):])
	r.values[len(r.values)-1] = o.Available
}

// before is what is known of signals at a time, for its record.
func (s series) before(at time.Time) []record.Series {
	var out []record.Series
	for _, signal := range slices.Sorted(maps.Keys(s)) {
		r := s[signal]
		if at.Unix()-r.last >= samples {
			continue
		}
		row := record.Series{Signal: signal, UntilMS: ms(time.Unix(r.last, 0), at), Unit: unitOf(signal), Available: make([]int64, len(r.values))}
		former := int64(0)
		for i, v := range r.values {
			row.Available[i] = v/row.Unit - former
			former = v / row.Unit
		}
		out = append(out, row)
	}
	return out
}

// unitOf is what a signal's samples are rounded to: bytes to MiB, which keeps records small.
func unitOf(s eviction.Signal) int64 {
	if d, _ := eviction.Builtin(s); d.Unit == eviction.UnitBytes {
		return 1 << 20
	}
	return 1
}

// ms is how much later than from at is, in milliseconds to a microsecond.
func ms(at, from time.Time) float64 { return float64(at.Sub(from).Microseconds()) / 1000 }
